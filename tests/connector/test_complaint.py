"""What is said of what goes wrong."""

from structlog.testing import capture_logs

from kvlease.connector.complaint import fault


def test_a_fault_is_told_without_what_variables_hold() -> None:
    token = "kvk_" + "secret"
    with capture_logs() as lines:
        try:
            int(token[:0])
        except ValueError as error:
            fault("link task failed", error, request_id="r")

    (line,) = lines
    assert line.pop("exception").endswith("ValueError: invalid literal for int() with base 10: ''\n")
    assert line == {"event": "link task failed", "request_id": "r", "log_level": "error"}
