"""Wall clocks that a test sets: of a daemon or a server, while it runs, by libfaketime. Monotonic clocks stay true."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from wakeful.embedded import Binaries

_LIBRARY = "libfaketimeMT.so.1"


class FakeClock:
    """The wall clock of the processes that run with its environment, `offset` seconds off."""

    def __init__(self, folder: Path, name: str, offset: float = 0.0) -> None:
        self._library = _find_library()
        self._file = folder / f"clock {name}"
        self.set(offset)

    def set(self, offset: float) -> None:
        """Step to so many seconds off the true time."""
        whole = self._file.with_suffix(".new")
        whole.write_text(f"{offset:+f}\n")
        whole.chmod(0o644)
        whole.rename(self._file)

    @property
    def around(self) -> tuple[str, ...]:
        """The command that runs another with this clock."""
        return (
            "env",
            f"LD_PRELOAD={self._library}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        )


def _find_library() -> Path:
    found = sorted(Path("/usr/lib").glob(f"**/faketime/{_LIBRARY}"))
    if not found:
        pytest.skip("needs libfaketime: install the package faketime")
    return found[0]


def binaries_with(clock: FakeClock, binaries: Binaries, folder: Path) -> Path:
    """Make a folder of the server's programs of which the server itself has this clock."""
    folder.mkdir(mode=0o755)
    for program in binaries.folder.iterdir():
        if program.name != "postgres":
            folder.joinpath(program.name).symlink_to(program)
    server = folder / "postgres"
    server.write_text(
        f'#!/bin/sh\nexec {shlex.join(clock.around)} {shlex.quote(binaries.program("postgres"))} "$@"\n'
    )
    server.chmod(0o755)
    return folder
