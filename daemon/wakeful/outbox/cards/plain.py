"""The stored message itself, for programs: as it is, or with its longest texts cut where it is too large.

Invariant: JSON with the same fields; `cut` is among them, and true, where anything is missing.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from wakeful.outbox.cards.shortening import ROOMS, Room, cut, encoded

# What receivers of Standard Webhooks are advised to take.
LARGEST_BYTES: Final = 20_000
_LONGEST_NUMBER: Final = 300
_LARGEST_LINKS: Final = 6000
_ROOM_OF_LINKS: Final = Room(text=1500, entries=8)
_DEEPEST: Final = 6
_MOST_ENTRIES: Final = 40


def plain_message(body: str, most: int = LARGEST_BYTES) -> bytes:
    """Give the bytes to post for a stored message: its own, unless they are more than `most`."""
    whole = body.encode("utf-8", errors="replace")
    if len(whole) <= most:
        return whole
    try:
        document = json.loads(body, parse_float=_number, parse_int=_number, parse_constant=str)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("the message is not an alert")
    shortened = whole
    for room in ROOMS:
        shortened = encoded(_with_links(_shorter(document, room, 0), document) | {"cut": True})
        if len(shortened) <= most:
            break
    return shortened


def _with_links(shortened: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Put the links back: half of one leads nowhere."""
    data, kept = document.get("data"), shortened.get("data")
    if not isinstance(data, dict) or not isinstance(kept, dict) or "links" not in data:
        return shortened
    links = {"links": _shorter(data.get("links"), _ROOM_OF_LINKS, 2)}
    fits = len(encoded(links)) <= _LARGEST_LINKS
    return shortened | {"data": kept | links} if fits else shortened


def _number(text: str) -> int | float | str:
    """Give a number that every reader takes; one that is longer or larger stays a text."""
    if len(text) > _LONGEST_NUMBER:
        return text
    value = float(text)
    return int(text) if text.lstrip("-").isdecimal() else value if math.isfinite(value) else text


def _shorter(value: Any, room: Room, depth: int) -> Any:
    if isinstance(value, str):
        return cut(value.encode("utf-8", errors="replace").decode(), room.text)
    if depth >= _DEEPEST and isinstance(value, dict | list):
        return None
    if isinstance(value, dict):
        # The fields of the message itself all stay; of deeper ones as many as there is room for.
        most = _MOST_ENTRIES if depth < 2 else room.entries
        return {cut(name, 80): _shorter(inner, room, depth + 1) for name, inner in list(value.items())[:most]}
    if isinstance(value, list):
        return [_shorter(inner, room, depth + 1) for inner in value[: room.entries]]
    return value
