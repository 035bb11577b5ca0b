"""A server with file systems of a few megabytes, for its write-ahead log and for tables, to be filled up and freed.

They are mounted in a mount namespace of one thread's own, which the server inherits: nothing is left behind,
however the test ends. It needs root, Linux and `mount`; whoever lacks them is told so.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from support.cluster import SETTINGS, Cluster
from wakeful.embedded import Postmaster, Server, find_binaries

MEGABYTES = 48  # two segments of the log, and what is made ahead
NEEDED = "needs to mount a small file system: run as root, on Linux, with `mount` and the right to unshare"
_CLONE_NEWNS = 0x00020000
_FILLER, _TABLES = "filler", "tables"
_BLOCK = bytes(1 << 16)


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """The server, and its small file system as the server sees it."""

    cluster: Cluster
    run: Callable[[Callable[[], object]], None]

    @property
    def log(self) -> Path:
        """Where the write-ahead log lies."""
        return self.cluster.server.data / "cluster" / "pg_wal"

    @property
    def tables(self) -> Path:
        """An empty folder for a tablespace, on a small file system of its own."""
        return self.cluster.server.data / _TABLES / "here"

    def fill(self, folder: Path) -> None:
        """Leave no room on the file system of a folder."""
        self.run(lambda: _fill(folder.parent if folder.name == "here" else folder))

    def free(self, folder: Path) -> None:
        """Make room again."""
        place = folder.parent if folder.name == "here" else folder
        self.run(lambda: (place / _FILLER).unlink(missing_ok=True))

    def start(self) -> None:
        """Start the server, as whoever looks after it does when there is room again."""
        self.run(self.cluster.postmaster.start)


def can_mount() -> bool:
    """Whether this system lets the test make a mount namespace and mount in it."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    attempt = ("unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt")
    return subprocess.run(attempt, capture_output=True, check=False).returncode == 0


@contextmanager
def running_on_small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Run a server on an empty folder until the block ends. Raises OSError where nothing can be mounted."""
    calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
    answers: SimpleQueue[BaseException | None] = SimpleQueue()

    def work() -> None:
        while (call := calls.get()) is not None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised again by who asked
                answers.put(error)
            else:
                answers.put(None)

    def run(call: Callable[[], object]) -> None:
        calls.put(call)
        if (error := answers.get()) is not None:
            raise error

    # The namespace is this thread's, and the kernel ends the server with the thread that started it.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    binaries = find_binaries(None)
    postmaster = Postmaster(folder, settings={**SETTINGS, "min_wal_size": "32MB", "max_wal_size": "32MB"})
    try:
        run(_leave_namespace)
        run(postmaster.prepare)
        run(lambda: _mount_log(folder / "cluster" / "pg_wal"))
        run(lambda: _mount_tables(folder / _TABLES, (folder / "cluster").stat()))
        server: list[Server] = []
        run(lambda: server.append(postmaster.start()))
        cluster = Cluster(postmaster=postmaster, server=server[0], binaries=binaries, has_statistics=False)
        yield SmallDisk(cluster, run)
    finally:
        run(postmaster.close)
        calls.put(None)
        thread.join()


def _fill(place: Path) -> None:
    with suppress(OSError), (place / _FILLER).open("ab", buffering=0) as filler:
        while filler.write(_BLOCK):
            pass


def _leave_namespace() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), NEEDED)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)


def _mount_log(log: Path) -> None:
    owner, kept = log.stat(), log.with_name("pg_wal.kept")
    shutil.copytree(log, kept)
    _mount(log, owner)
    shutil.copytree(kept, log, dirs_exist_ok=True)
    shutil.rmtree(kept)
    for path in (log, *log.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)


def _mount_tables(place: Path, owner: os.stat_result) -> None:
    place.mkdir()
    _mount(place, owner)
    (place / "here").mkdir()
    os.chown(place / "here", owner.st_uid, owner.st_gid)


def _mount(place: Path, owner: os.stat_result) -> None:
    options = f"size={MEGABYTES}m,uid={owner.st_uid},gid={owner.st_gid},mode=0700"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True, capture_output=True
    )
