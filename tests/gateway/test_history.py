from math import inf

from kvlease.gateway.status.history import KEEP, Buckets, History, Totals, quantile


def totals(*, reused: float = 0, computed: float = 0, first_byte: Buckets = ((1.0, 0), (inf, 0))) -> Totals:
    return Totals({"reused": reused, "local": 0, "computed": computed}, first_byte)


def test_a_point_tells_what_happened_since_the_look_before() -> None:
    history = History(totals(reused=100, computed=50))

    history.look(totals(reused=130, computed=50))
    history.look(totals(reused=130, computed=75))

    assert [(point.reused, point.computed) for point in history.points] == [(30, 0), (0, 25)]


def test_times_are_of_the_streams_since_the_look_before() -> None:
    history = History(totals(first_byte=[(1.0, 7), (2.0, 7), (inf, 9)]))

    history.look(totals(first_byte=[(1.0, 7), (2.0, 11), (inf, 13)]))
    history.look(totals(first_byte=[(1.0, 7), (2.0, 11), (inf, 13)]))

    assert [(point.ttft_median, point.ttft_tail) for point in history.points] == [(1.5, 1.95), (None, None)]


def test_old_points_go() -> None:
    history = History(totals())

    for counted in range(KEEP + 5):
        history.look(totals(reused=counted * counted))

    assert len(history.points) == KEEP
    assert history.points[-1].reused == (KEEP + 4) ** 2 - (KEEP + 3) ** 2


def test_a_quantile_lies_in_its_bucket_and_above_the_last_bound_at_it() -> None:
    buckets = [(0.1, 10.0), (0.2, 10.0), (0.4, 20.0), (inf, 40.0)]

    assert quantile(buckets, 0.125) == 0.05
    assert quantile(buckets, 0.375) == 0.2 + 0.2 * 5 / 10
    assert quantile(buckets, 0.9) == 0.4
    assert quantile([(0.1, 0.0), (inf, 0.0)], 0.5) is None
