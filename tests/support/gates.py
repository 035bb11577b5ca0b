"""Follows what a PostgreSQL client says on one connection, to stop it before the commit of a statement that is named.

Invariant: what is heard is never changed, and no more is kept of it than the names of prepared statements and the
message that is not yet whole. The bytes up to the cut make the server run the statement; those behind it commit it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

_HEADER = 5  # a letter, and the length of what follows, itself included


class Keep(Enum):
    """What a gate keeps back. COMMIT: the server has run the statement; REPLY: it has committed it, too."""

    COMMIT = auto()
    REPLY = auto()


@dataclass(frozen=True, slots=True)
class Gate:
    """Stops the next link that runs a statement with this text; of several in a transaction, at its commit."""

    statement: str
    keep: Keep


@dataclass(frozen=True, slots=True)
class Heard:
    """What a chunk came to: whether the statement runs in it, and where the bytes begin that commit it."""

    runs: bool
    cut: int | None


class Conversation:
    """One client's side of a connection, chunk by chunk."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._prepared: dict[bytes, bytes] = {}
        self._in_transaction = False
        self._armed = False

    def hear(self, chunk: bytes, gate: Gate | None) -> Heard:
        """Take in what the client says next."""
        wanted = None if gate is None else gate.statement.encode()
        runs, cut = False, None
        for begins, letter, body in self._messages(chunk):
            self._note(letter, body)
            if wanted is not None and self._runs(letter, body, wanted):
                self._armed = runs = True
            if self._armed and cut is None and self._commits(letter, body):
                cut, self._armed = max(0, begins), False
        return Heard(runs, cut)

    def _messages(self, chunk: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """Each whole message, with its place in the chunk; below nought where it began in an earlier one."""
        at, said = -len(self._rest), self._rest + chunk
        while message := self._first(said):
            yield at, *message
            size = len(message[1]) + (_HEADER if self._started else 0)
            self._started = True
            at, said = at + size, said[size:]
        self._rest = said

    def _first(self, said: bytes) -> tuple[bytes, bytes] | None:
        if not self._started:  # the start-up has no letter; nothing of it is of interest
            whole = len(said) >= 4 and len(said) >= struct.unpack_from("!i", said)[0]
            return (b"", said[: struct.unpack_from("!i", said)[0]]) if whole else None
        if len(said) < _HEADER:
            return None
        (length,) = struct.unpack_from("!i", said, 1)
        return (said[:1], said[_HEADER : length + 1]) if len(said) > length else None

    def _note(self, letter: bytes, body: bytes) -> None:
        if letter == b"P":
            name, _, text = body.partition(b"\0")
            self._prepared[name] = text.partition(b"\0")[0]
        elif letter == b"Q":
            word = body[:8].upper()
            self._in_transaction = (self._in_transaction or word.startswith(b"BEGIN")) and not (
                word.startswith((b"COMMIT", b"ROLLBACK"))
            )

    def _runs(self, letter: bytes, body: bytes, wanted: bytes) -> bool:
        if letter == b"Q":
            return wanted in body
        return letter == b"B" and wanted in self._prepared.get(body.split(b"\0", 2)[1], b"")

    def _commits(self, letter: bytes, body: bytes) -> bool:
        if letter == b"Q":
            return body[:6].upper() == b"COMMIT"
        return letter == b"S" and not self._in_transaction
