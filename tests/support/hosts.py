"""A hosts file of a daemon's own, which a test rewrites while it runs: its names are pointed elsewhere, as by DNS.

The daemon has a mount namespace in which that file lies over the system's. Needs root and `unshare` of util-linux.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_OVER = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'


@dataclass(frozen=True, slots=True)
class HostsFile:
    """The file, and the way to have it."""

    file: Path

    @property
    def around(self) -> tuple[str, ...]:
        """The command that runs another with this file."""
        return ("unshare", "--mount", "sh", "-c", _OVER, "sh", str(self.file))

    def point(self, name: str, address: str) -> None:
        """Let a name, and no other, mean this address."""
        self.file.write_text(f"{address} {name}\n")  # in place: what is mounted is this very file


def hosts_file(folder: Path) -> HostsFile:
    """Give an empty one. Skips where it can't be mounted."""
    made = HostsFile(folder / "hosts")
    made.file.touch()
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs a mount namespace: run as root, with util-linux installed")
    tried = subprocess.run([*made.around, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"needs a mount namespace: {tried.stderr.strip()}")
    return made
