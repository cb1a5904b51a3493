"""Every refusal has a status."""

import inspect

from kvlease.router import errors
from kvlease.router.statuses import STATUSES


def test_every_error_has_a_row() -> None:
    classes = {cls for _, cls in inspect.getmembers(errors, inspect.isclass)} - {errors.RouterError}

    assert classes == set(STATUSES)
    assert all(issubclass(cls, errors.RouterError) for cls in classes)


def test_no_two_errors_share_a_reason() -> None:
    assert len({status.reason for status in STATUSES.values()}) == len(STATUSES)
