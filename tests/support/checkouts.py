"""A copy of the project in a folder of its own, and a PATH with nothing on it but what a test puts there."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from support.sources import TOP, project_files

# what tools/setup.sh and make call, and a bare system has
BARE_SYSTEM = "sh env make awk cat cksum dirname grep head id ls mkdir rm sed tail tr uname"


def copied_checkout(folder: Path) -> Path:
    """Copy the project's files, and no environment, into this new folder."""
    for path in project_files():
        target = folder / path.relative_to(TOP)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return folder


class Shelf:
    """A folder for PATH: real programs by link, and stand-ins of a few lines of shell."""

    def __init__(self, folder: Path, programs: Iterable[str] = tuple(BARE_SYSTEM.split())) -> None:
        folder.mkdir()
        self.folder = folder
        for name in programs:
            found = shutil.which(name)
            assert found is not None, name
            (folder / name).symlink_to(found)

    def add(self, name: str, script: str) -> None:
        """Put a shell script there."""
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def add_python(self, name: str, before: str = "") -> None:
        """Put this test's interpreter there; `before` runs ahead of a ``-c`` text, so that it can lack something."""
        real = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
        if not before:
            self.add(name, f'exec "{real}" "$@"')
            return
        code = f"import sys; {before}; exec(sys.argv.pop(2))"
        self.add(name, f'[ "$1" = -c ] || exec "{real}" "$@"\nexec "{real}" -c \'{code}\' "$@"')

    def run(self, *command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command with this folder as the whole PATH and little else in its environment."""
        return subprocess.run(
            command,
            cwd=cwd,
            env={"PATH": str(self.folder), "HOME": str(self.folder), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
