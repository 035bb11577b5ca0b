"""Where the demo writes: a terminal that is drawn anew, plain lines, or JSON lines.

Invariant: each writes at once and whole, so that what is piped is read line by line; the live view leaves nothing
behind but what was said for good, whatever the terminal's size became meanwhile. What is said is `entries`'.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol, TextIO

from wakeful.cli.demo.entries import Entry
from wakeful.cli.demo.frame import Room
from wakeful.cli.demo.paint import Line, Style, columns_of, wrapped
from wakeful.cli.terminal import to_json

_CLEAR_BELOW: Final = "\x1b[J"
_UP: Final = "\x1b[{}A"
_MARGIN_LINES: Final = 2
_SYMBOLS: Final = "✓▶◷✗·█░…"


class Screen(Protocol):
    """What the demo tells its story on."""

    @property
    def style(self) -> Style:
        """What can be shown here."""
        ...

    @property
    def room(self) -> Room | None:
        """How large a frame may be; None where none is shown."""
        ...

    def write(self, entries: Iterable[Entry], frame: Sequence[Line] = ()) -> None:
        """Write what is to stay, and below it the frame in place of the last one. Raises OSError."""
        ...


class LiveScreen:
    """A terminal: entries stay, the frame below them is drawn anew."""

    def __init__(self, stream: TextIO, style: Style) -> None:
        self.style = style
        self._stream = stream
        self._drawn: tuple[Line, ...] = ()

    @property
    def room(self) -> Room | None:
        """All of the terminal, but for a little."""
        size = shutil.get_terminal_size()
        return Room(columns=max(20, size.columns - 1), lines=max(1, size.lines - _MARGIN_LINES))

    def write(self, entries: Iterable[Entry], frame: Sequence[Line] = ()) -> None:
        """Write entries and the frame in one go."""
        columns = shutil.get_terminal_size().columns - 1
        told = [shown for entry in entries if not entry.minor for shown in entry.lines]
        lasting = [part for shown in told for part in wrapped(shown, columns)]
        if not lasting and tuple(frame) == self._drawn:
            return
        text = "".join(f"{self.style.render(one)}\n" for one in (*lasting, *frame))
        self._stream.write(self._erase() + text)
        self._stream.flush()
        self._drawn = tuple(frame)

    def _erase(self) -> str:
        """Go back to where the last frame began; in a terminal that was made narrower, its lines take several."""
        columns = max(1, shutil.get_terminal_size().columns)
        lines = sum(max(1, -(-columns_of(one) // columns)) for one in self._drawn)
        return f"\r{_UP.format(lines) if lines else ''}{_CLEAR_BELOW}"


class PlainScreen:
    """Lines, each with the time in front: for pipes, files and terminals that can't do more."""

    room: Room | None = None

    def __init__(self, stream: TextIO, style: Style, clock: Callable[[], datetime]) -> None:
        self.style = style
        self._stream = stream
        self._clock = clock

    def write(self, entries: Iterable[Entry], frame: Sequence[Line] = ()) -> None:
        """Write the entries."""
        for entry in entries:
            head = f"{self._clock().astimezone():%H:%M:%S}  "
            for number, shown in enumerate(entry.lines):
                self._stream.write(
                    f"{' ' * len(head) if number else head}{self.style.render(shown)}".rstrip() + "\n"
                )
        self._stream.flush()


class JsonScreen:
    """One JSON object a line."""

    room: Room | None = None
    style: Style = Style(colours=False, symbols=True)

    def __init__(self, stream: TextIO, clock: Callable[[], datetime]) -> None:
        self._stream = stream
        self._clock = clock

    def write(self, entries: Iterable[Entry], frame: Sequence[Line] = ()) -> None:
        """Write the entries."""
        for entry in entries:
            self._stream.write(to_json({"at": self._clock().isoformat(), **entry.document()}) + "\n")
        self._stream.flush()


def screen_for(
    stream: TextIO, environ: Mapping[str, str], *, as_json: bool, clock: Callable[[], datetime]
) -> Screen:
    """Choose by what is asked for and by what the stream is."""
    if as_json:
        return JsonScreen(stream, clock)
    is_live = stream.isatty() and environ.get("TERM", "dumb") != "dumb" and not environ.get("CI")
    style = Style(colours=is_live and not environ.get("NO_COLOR"), symbols=_has_symbols(stream))
    return LiveScreen(stream, style) if is_live else PlainScreen(stream, style, clock)


def silence(stream: TextIO) -> None:
    """Let what is still written go nowhere: nobody reads any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _has_symbols(stream: TextIO) -> bool:
    try:
        _SYMBOLS.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
