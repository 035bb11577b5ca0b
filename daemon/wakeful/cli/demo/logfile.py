"""The file that the daemon's log goes to while the terminal tells the story.

Invariant: nothing is written before the data folder is held, since until then it may be another process's; what is
logged until then is kept. A file that has grown large is put aside at the next start.
"""

from __future__ import annotations

import io
from pathlib import Path
from threading import Lock
from typing import Final, TextIO

from wakeful.embedded.folder import give_to_owner

NAME: Final = "daemon.log"
LARGEST_BYTES: Final = 10_000_000


class LogFile(io.TextIOBase):
    """A stream that keeps what it is given until `open` says where it goes. Safe to write to from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: list[str] = []
        self._file: TextIO | None = None

    def open(self, folder: Path) -> Path:
        """Write to a file in this folder from now on; gives its path."""
        path = folder / NAME
        if path.exists() and path.stat().st_size > LARGEST_BYTES:
            path.replace(path.with_suffix(".log.1"))
        opened = path.open("a", encoding="utf-8", errors="backslashreplace")
        give_to_owner(opened.fileno(), folder)
        with self._lock:
            self._file = opened
            opened.writelines(self._kept)
            self._kept.clear()
            opened.flush()
        return path

    def write(self, text: str) -> int:
        """Write, or keep."""
        with self._lock:
            if self._file is None:
                self._kept.append(text)
            else:
                self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Let others see what was written."""
        with self._lock:
            if self._file is not None:
                self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
        super().close()
