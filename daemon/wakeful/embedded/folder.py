"""The data folder: who may use it, what lies in it, and what a process that was killed left there.

    owner         locked while a process of ours uses the folder, and holds its pid; gone after a clean end
    cluster/      PostgreSQL's own data; it appears only once it is complete
    server.log    what the server said
    binaries/     only where the server's user can't read the installed ones

One process a folder: the lock is the kernel's, so it ends with its process. A live server is never killed here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wakeful.errors import DataFolderInUse, EmbeddedUnavailable

_VANISH_SECONDS = 15.0
_LOCK_SECONDS = 0.5  # a killed holder's lock goes a moment after its process
_LOOK_SECONDS = 0.02
_LARGEST_LOG = 5_000_000


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Names what lies in a data folder."""

    path: Path

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data."""
        return self.path / "cluster"

    @property
    def unfinished_cluster(self) -> Path:
        """Where this process's initdb works; renamed when it has ended well."""
        return self.path / f"cluster.new-{os.getpid()}"

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.path / "server.log"

    @property
    def pid_file(self) -> Path:
        """PostgreSQL's postmaster.pid."""
        return self.cluster / "postmaster.pid"

    @property
    def binaries(self) -> Path:
        """Copies of binaries, where those that are installed can't be read by the server's user."""
        return self.path / "binaries"

    def major(self) -> int | None:
        """Give the major version of PostgreSQL that the data were made by, or None where there are none yet."""
        try:
            return int((self.cluster / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    def server_pid(self) -> int | None:
        """Give the first line of postmaster.pid, or None without one."""
        try:
            return int(self.pid_file.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None


@contextmanager
def held_folder(path: Path) -> Iterator[DataFolder]:
    """Hold the data folder, made where missing, for this process alone. Raises DataFolderInUse with its holder."""
    folder = _make_folder(path)
    owner = folder.path / "owner"
    descriptor = _lock(owner, folder)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield folder
    finally:
        owner.unlink(missing_ok=True)
        os.close(descriptor)


def give_to_owner(descriptor: int, path: Path) -> None:
    """Give an open file of ours to the owner of the folder `path`, so that root leaves nothing that blocks them."""
    owner = path.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def clear_leftovers(folder: DataFolder, *, patience: float = _VANISH_SECONDS) -> None:
    """Remove what a killed process left. Raises DataFolderInUse where a server still runs after `patience` seconds.

    The caller holds the folder, so a live server is one whose starter was killed a moment ago and which is shutting
    down by itself, or one that somebody started by hand: wait for the first, refuse the second.
    """
    for unfinished in folder.path.glob("cluster.new-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    if folder.log.exists() and folder.log.stat().st_size > _LARGEST_LOG:
        folder.log.unlink()
    end = time.monotonic() + patience
    while (pid := folder.server_pid()) is not None and _is_live_server(pid, folder):
        if time.monotonic() > end:
            raise DataFolderInUse(str(folder.path), pid)
        time.sleep(_LOOK_SECONDS)
    # PostgreSQL itself would refuse for as long as any process, even a zombie, has that pid
    folder.pid_file.unlink(missing_ok=True)


def _make_folder(path: Path) -> DataFolder:
    folder = DataFolder(path.absolute())
    if (folder.path / "PG_VERSION").exists():
        raise EmbeddedUnavailable(
            f"{folder.path} is a PostgreSQL data folder of somebody else's: choose another"
        )
    try:
        _make_with_owner(folder.path)
    except OSError as error:
        raise EmbeddedUnavailable(f"the data folder can't be made: {error}; choose another") from error
    return folder


def _make_with_owner(path: Path, mode: int = 0o700) -> None:
    """Make a folder and its missing parents, each with the owner of the folder that it is made in."""
    if path.is_dir():
        return
    _make_with_owner(path.parent, mode=0o755)
    path.mkdir(mode=mode)
    parent = path.parent.stat()
    if os.geteuid() == 0 and parent.st_uid != 0:
        os.chown(path, parent.st_uid, parent.st_gid)


def _lock(owner: Path, folder: DataFolder) -> int:
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            descriptor = os.open(owner, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise EmbeddedUnavailable(f"the data folder can't be used: {error}; choose another") from error
        holder = os.pread(descriptor, 32, 0).strip()
        # its former holder may have removed the file between our open and our lock: then take the new one
        if _is_locked_by_us(descriptor) and _is_still(owner, descriptor):
            give_to_owner(descriptor, folder.path)
            return descriptor
        os.close(descriptor)
        if time.monotonic() > end:
            raise DataFolderInUse(str(folder.path), int(holder) if holder.isdigit() else None)
        time.sleep(_LOOK_SECONDS)


def _is_locked_by_us(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(owner: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), owner.stat())
    except FileNotFoundError:
        return False


def _is_live_server(pid: int, folder: DataFolder) -> bool:
    """Whether `pid` is a running PostgreSQL that can be this folder's: not dead, not a zombie, not another program."""
    if sys.platform != "linux":
        return _is_live_elsewhere(pid)
    process = Path(f"/proc/{pid}")
    try:
        name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return False
    if rest.split()[0] in "ZX" or name not in ("postgres", "postmaster"):
        return False
    try:
        return (process / "cwd").samefile(folder.cluster)
    except PermissionError:
        return True
    except FileNotFoundError:
        return False


def _is_live_elsewhere(pid: int) -> bool:
    answer = subprocess.run(
        ["ps", "-o", "stat=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(answer) and not answer.startswith("Z") and "postgres" in answer
