"""Help tells defaults only where they tell something."""

import argparse

from kvlease.rpc.options import Help, add_metrics, add_protection, add_security


def test_a_default_is_shown_where_it_is_a_value() -> None:
    parser = argparse.ArgumentParser(formatter_class=Help)
    parser.add_argument("--grace", default="10s", help="time")
    parser.add_argument("--caching", action=argparse.BooleanOptionalAction, default=True, help="cache")
    add_metrics(parser)
    add_protection(parser)
    add_security(parser)

    told = " ".join(parser.format_help().split())

    assert "time (default: 10s)" in told
    assert "cache (default: True)" in told
    assert told.count("(default:") == 2
