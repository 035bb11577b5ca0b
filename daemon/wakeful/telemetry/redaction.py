"""Keeps secrets out of everything that is shown: logs, errors, pages, metrics.

Invariant: a registered value, and the password in anything that looks like a DSN or URL, does not come
through. Which values are secret is for `wakeful.config` to say; a rotated one is added when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from wakeful.core.text import CUT_MARK

HIDDEN: Final = "***"
STORED_CHARACTERS: Final = 500  # the least that `depart()` leaves of a text
SHORTEST_SECRET: Final = 4  # a shorter one would hide half of every line

_IN_URL: Final = re.compile(r"(?<=://)([^\s:/@?#'\"]*):[^\s@/?#'\"]+@")
_IN_KEYWORDS: Final = re.compile(
    r"\b(password|passwd|sslpassword)(\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'\"]+)", re.IGNORECASE
)


# The same at the end of a text that was cut.
_CUT: Final = re.compile(r"(\s*…\[cut\]…?\s*)")
_CUT_IN_URL: Final = re.compile(r"(?<=://)([^\s:/@?#'\"]*):[^\s@/?#'\"]+$")
_CUT_IN_KEYWORDS: Final = re.compile(
    r"\b(password|passwd|sslpassword)(\s*=\s*)'(?:[^'\\]|\\.)*\\?$", re.IGNORECASE
)


class Redactor:
    """Replaces secrets by `***`. Thread-safe: `add` swaps the pattern, readers use the one they got."""

    __slots__ = ("_pattern", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add(*values)

    def add(self, *values: str) -> None:
        """Register more secrets; those shorter than four characters are not looked for."""
        known = self._values | {value for value in values if len(value) >= SHORTEST_SECRET}
        if known != self._values:
            longest_first = sorted(known, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
            self._values = known  # last: who sees these values has their pattern

    def also(self, values: Iterable[str]) -> Redactor:
        """Give one that hides these, too: the secrets of one payload. What is added here later it does not learn of."""
        return Redactor(self._values.union(values))

    def hides(self, number: float) -> bool:
        """Whether this very number is a secret, as one in a payload may be."""
        return bool(self._values) and str(number) in self._values

    def may_touch(self, text: str) -> bool:
        """Whether `text` may hold a secret; where not, it certainly holds none. A tenth of a search for the pattern."""
        if "://" in text or "=" in text:
            return True
        for value in self._values:  # noqa: SIM110 - a generator would take twice as long, and each line asks
            if value in text:
                return True
        return False

    def text(self, text: str) -> str:
        """Give `text` without its secrets."""
        if not self.may_touch(text):
            return text
        if self._pattern is not None:
            text = self._pattern.sub(HIDDEN, text)
        if "://" in text:
            text = _IN_URL.sub(rf"\1:{HIDDEN}@", text)
        return _IN_KEYWORDS.sub(rf"\1\2{HIDDEN}", text) if "=" in text else text

    def shortened(self, text: str) -> str:
        """Give a text that may have been cut, as a mark in it says then, without secrets and what is left of one."""
        return self.cut(text) if CUT_MARK in text else self.text(text)

    def stored(self, text: str) -> str:
        """Give a text of the database without secrets; one as long as is left of any was cut there, perhaps in one."""
        return self.cut(text) if len(text) >= STORED_CHARACTERS else self.text(text)

    def cut(self, text: str) -> str:
        """Give a text of which an end is missing without its secrets, and without what is left of one that was cut.

        Where no mark shows the place, the end of the text is.
        """
        pieces = _CUT.split(self.text(text))
        shown = [pieces[0] if len(pieces) > 1 else self._without_beginning(pieces[0])]
        for mark, piece in zip(pieces[1::2], pieces[2::2], strict=True):
            shown[-1] = self._without_beginning(shown[-1])
            shown += mark, self._without_end(piece)
        return "".join(shown)

    def _without_beginning(self, text: str) -> str:
        longest = max((_shared(text, value, ends=True) for value in self._values), default=0)
        text = text[: len(text) - longest] + HIDDEN if longest else text
        return _CUT_IN_KEYWORDS.sub(rf"\1\2{HIDDEN}", _CUT_IN_URL.sub(rf"\1:{HIDDEN}", text))

    def _without_end(self, text: str) -> str:
        longest = max((_shared(text, value, ends=False) for value in self._values), default=0)
        return HIDDEN + text[longest:] if longest else text

    def value(self, value: object) -> object:
        """Give a value with the secrets hidden in all texts that it holds; other values as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(entry) for entry in value]
        return value


def _shared(text: str, secret: str, *, ends: bool) -> int:
    """How many characters of a secret, but not all, the text ends (or begins) with; 0 where so few tell nothing."""
    for size in range(min(len(secret) - 1, len(text)), SHORTEST_SECRET - 1, -1):
        if text.endswith(secret[:size]) if ends else text.startswith(secret[-size:]):
            return size
    return 0
