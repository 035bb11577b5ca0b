"""Reads the first message that a PostgreSQL client sends, so that a proxy's connections can be told apart by name."""

from __future__ import annotations

import struct

_PROTOCOL_3 = 196608
_BEFORE_STARTUP = (80877103, 80877104)  # requests for TLS and for GSS encryption, 8 bytes each


def application_name(sent: bytes) -> str | None:
    """Give the application_name in what a client has sent so far; "" without one, None while it can't be known."""
    while len(sent) >= 8:
        length, code = struct.unpack_from("!ii", sent)
        if code in _BEFORE_STARTUP:
            sent = sent[8:]
            continue
        if code != _PROTOCOL_3:
            return ""  # a request to cancel, or no PostgreSQL at all
        if len(sent) < length:
            return None
        fields = sent[8:length].split(b"\0")
        given = dict(zip(fields[::2], fields[1::2], strict=False))
        return given.get(b"application_name", b"").decode(errors="replace")
    return None
