"""What can go wrong with a channel, as exceptions whose text is the `reason` that people read."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "dns",
    "refused",
    "unreachable",
    "timeout",
    "tls",
    "private_address",
    "forbidden",
    "rate_limited",
    "http",
    "robots",
    "off_site",
    "too_large",
    "content_type",
    "broken",
    "bad_markup",
]
"""What failed. `robots` is a wish of the site, not a failure: its channel counts as skipped."""

PASSING: frozenset[Kind] = frozenset(("dns", "refused", "unreachable", "timeout", "rate_limited", "broken"))
"""Kinds that may be gone at the next attempt."""


class ChannelTrouble(Exception):
    """A channel could not be read. `http_status` is the last answer's, `retry_after` in seconds where one was given."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.detail = detail
        # Markup is only looked at when the answer was a 200.
        self.http_status = 200 if kind == "bad_markup" else http_status
        self.retry_after = retry_after
        super().__init__(f"{kind}: {detail}")


class Skipped(Exception):
    """There was no way to look through this channel; the text says why."""
