"""What the answers of HTTP mean for a message, where a vendor has no other rule.

Invariant: what concerns the message is final, what concerns the address is not: that is read again at each try, and
people may mend it meanwhile. Of a body nothing is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from wakeful.outbox.sinks.exchange import Reply
from wakeful.outbox.sinks.protocol import Failed
from wakeful.outbox.sinks.retry_after import in_seconds, longest_wait

# The same bytes would be refused again: too large, or not what is read there. Everything else may be a receiver that
# is being changed, so it is tried again.
NEVER_ACCEPTED: Final = frozenset({413, 415, 422})
# The same for a vendor that says 400 to what it can't read, and to nothing else.
NEVER_ACCEPTED_BY_VENDORS: Final = NEVER_ACCEPTED | {400, 414, 431}

# What an address says that was retired, or has another key now, and also one that is being deployed.
_REJECTED: Final = frozenset({400, 401, 403, 404})
_HINTS: Final[Mapping[int, str]] = {2: "a success here has another status", 3: "redirects are not followed"}
_WAIT_HEADERS: Final = ("Retry-After", "X-RateLimit-Reset-After", "RateLimit-Reset")
_MILLISECOND_HEADERS: Final = ("Retry-After-Ms", "x-ms-retry-after-ms")  # gateways before a vendor
_SLOW_DOWN: Final = frozenset({429, 503})


def refused(
    reply: Reply, *, never: AbstractSet[int] = NEVER_ACCEPTED, gone: bool = False, because: str = ""
) -> Failed:
    """Give the failure that a reply means. `because` is what the vendor said of it, in words known to be harmless."""
    status = reply.status
    why = because or _HINTS.get(status // 100, "")
    return Failed(
        reason=f"{named(status)}; {why}" if why else named(status),
        retry_after=asked_to_wait(reply),
        permanent=status in never,
        gone=gone or status == HTTPStatus.GONE,
        rejected=status in _REJECTED,
    )


def misunderstood(reply: Reply, what: str) -> Failed:
    """Give the failure of an answer that looks like a success and is none: what answers there is something else."""
    said = "a page for people, perhaps to log in" if reply.is_page else what
    return Failed(reason=f"{named(reply.status)}, but {said}", retry_after=asked_to_wait(reply))


def asked_to_wait(reply: Reply) -> float | None:
    """Give the seconds that a reply asks to wait, in whatever way."""
    names = _WAIT_HEADERS if reply.status in _SLOW_DOWN else _WAIT_HEADERS[:1]
    milliseconds = _MILLISECOND_HEADERS if reply.status in _SLOW_DOWN else ()
    return longest_wait(
        (
            *(value for name in names for value in reply.headers.getall(name, [])),
            *(in_seconds(value) for name in milliseconds for value in reply.headers.getall(name, [])),
        ),
        reply.text if reply.status in _SLOW_DOWN else "",
        server_date=reply.headers.get("Date"),
        now=datetime.now(UTC),
    )


def named(status: int) -> str:
    """Give a status with its name."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
