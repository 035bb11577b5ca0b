"""The release after this one, made of this one's files and a step more: to run beside this one, on one database.

It is a folder of its own with the package, the whole schema and the step as a migration, as a release brings them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.commands import environment
from support.databases import ClonedDatabase
from support.process import TESTS
from support.sources import TOP
from wakeful.store.versions import versions

NEXT = versions().newest + 1
ANY_PORT = {"WAKEFUL__HTTP__PORT": "0"}


@dataclass(frozen=True, slots=True)
class Release:
    """An unpacked release."""

    source: Path

    @property
    def around(self) -> Sequence[str]:
        """What makes a command run this release's code."""
        return "env", f"PYTHONPATH={self.source}:{TESTS}"

    def start(self, *arguments: str, db: ClonedDatabase) -> subprocess.Popen[str]:
        """Run a command of this release."""
        return subprocess.Popen(
            [*self.around, sys.executable, "-m", "wakeful", *arguments],
            cwd="/", env=environment(db, more=ANY_PORT), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


def next_release(folder: Path, step: str) -> Release:
    """Make the release that follows, with this migration."""
    shutil.copytree(
        TOP / "daemon" / "wakeful",
        folder / "daemon" / "wakeful",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("config.toml", "pyproject.toml"):
        shutil.copy2(TOP / name, folder / name)
    breaking = NEXT if step.startswith("-- breaking") else 1
    schema, changed = re.subn(
        r"(schema_version, breaking_version\) values) \(\d+, \d+\)", rf"\1 ({NEXT}, {breaking})",
        (TOP / "schema.sql").read_text(),
    )  # fmt: skip
    assert changed == 1
    (folder / "schema.sql").write_text(f"{schema}\n{step}")
    migration = folder / "daemon" / "wakeful" / "store" / "migrations" / f"{NEXT:04}_next.sql"
    migration.parent.mkdir(exist_ok=True)
    migration.write_text(step)
    return Release(folder / "daemon")
