"""Retry-After, in the forms that servers use, and nonsense."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wakeful.outbox.sinks.retry_after import retry_after

NOW = datetime(2026, 12, 1, 5, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("Tue, 01 Dec 2026 05:01:30 GMT", 90.0),
        ("Tuesday, 01-Dec-26 05:00:07 GMT", 7.0),
        ("86400", 3600.0),
        ("999999999999", 3600.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0),
        ("0", None),
        ("Tue, 01 Dec 2026 04:00:00 GMT", None),
        ("-5", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("٣", None),
        ("", None),
        (None, None),
        ("9" * 5000, None),
    ],
)
def test_what_a_server_asks_for(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, server_date=None, now=NOW) == seconds


def test_a_date_is_compared_with_the_clock_of_the_server() -> None:
    assert (
        retry_after("Tue, 01 Dec 2026 07:00:10 GMT", server_date="Tue, 01 Dec 2026 07:00:00 GMT", now=NOW)
        == 10.0
    )
