"""Names that nobody else gives."""

from kvlease.router.names import DRAWN, Names


def test_every_name_is_another_one() -> None:
    names = Names()

    taken = [names.take() for _ in range(2 * DRAWN + 1)]

    assert len(set(taken)) == len(taken)
    assert {len(name) for name in taken} == {32}


def test_randomness_is_asked_for_seldom() -> None:
    asked: list[int] = []

    def source(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    names = Names(source)
    for _ in range(DRAWN):
        names.take()

    assert len(asked) == 1
