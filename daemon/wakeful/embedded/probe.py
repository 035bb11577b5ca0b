"""Asks a server on a unix socket whether it takes connections: the start of PostgreSQL's protocol, and no more.

Only the store speaks to a database through a driver; this needs none, since the answer's first byte says it all.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

_PROTOCOL_3 = 196608
_SECONDS = 5.0


def accepts_connections(socket_path: Path, user: str, database: str) -> bool:
    """Open a real connection and close it again: true when the server let us in, false for any other answer or none."""
    parameters = b"".join(part.encode() + b"\0" for part in ("user", user, "database", database)) + b"\0"
    startup = struct.pack("!ii", len(parameters) + 8, _PROTOCOL_3) + parameters
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(socket_path))
            connection.sendall(startup)
            let_in = connection.recv(1) == b"R"  # AuthenticationOk; while it starts up or shuts down: E
            if let_in:
                connection.sendall(b"X" + struct.pack("!i", 4))
            return let_in
    except OSError:
        return False
