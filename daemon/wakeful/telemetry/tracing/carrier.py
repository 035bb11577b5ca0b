"""W3C Trace Context as a job carries it: `traceparent` and `tracestate` among its meta data, whoever wrote them.

Invariant: what is no trace context costs its link and nothing else; it is neither kept nor logged nor handed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from wakeful.core import jsontext

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
STATE_LIMIT: Final = 512

_IN_TEXT: Final = f'"{TRACEPARENT}"'
_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(f"[\x20-\x7e]{{1,{STATE_LIMIT}}}")


class Carrier(NamedTuple):
    """A trace context as text, checked."""

    traceparent: str
    tracestate: str | None = None

    def members(self) -> dict[str, str]:
        """Give it as members of meta data."""
        state = {} if self.tracestate is None else {TRACESTATE: self.tracestate}
        return {TRACEPARENT: self.traceparent, **state}


def carried_in(meta_text: str) -> Carrier | None:
    """Give what meta data, as JSON text, say of a trace; None where they say nothing, or nonsense."""
    if _IN_TEXT not in meta_text:  # most: decoding takes longer
        return None
    try:
        return carrier_of(jsontext.loads(meta_text))
    except ValueError:
        return None


def carrier_of(members: object) -> Carrier | None:
    """Give the trace context among members of any kind and origin; None where there is none."""
    if not isinstance(members, Mapping):
        return None
    parent, state = members.get(TRACEPARENT), members.get(TRACESTATE)
    if not isinstance(parent, str) or not _PARENT.fullmatch(parent):
        return None
    return Carrier(parent, state if isinstance(state, str) and _STATE.fullmatch(state) else None)
