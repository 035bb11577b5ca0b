"""What one private server stands on, found before it starts: data folder, binaries, user, and a short socket folder.

The socket folder is ours alone (mode 0700) and lies in a short temporary folder, since a socket's path may have about
100 bytes; it goes when the place is left.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from wakeful.embedded.binaries import Binaries, find_binaries, readable_by
from wakeful.embedded.folder import DataFolder
from wakeful.embedded.identity import Identity, choose_identity
from wakeful.errors import EmbeddedUnavailable

USER = "postgres"
DATABASE = "postgres"
_PORT = 5432  # a part of the socket's name only: the server listens on no network address
_LONGEST_SOCKET_PATH = 100  # bytes; the systems' limits are 103 (macOS) and 107 (Linux)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server. `dsn` is for its superuser and the database `postgres`; `host_shown` is for people."""

    dsn: str
    data: Path
    socket_folder: Path
    version: str
    pid: int
    host_shown: str

    def dsn_for(self, database: str) -> str:
        """Give the DSN of another database of this server."""
        return _dsn(self.socket_folder, database)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A held data folder with all that a server on it needs."""

    folder: DataFolder
    binaries: Binaries
    identity: Identity
    socket_folder: Path

    @property
    def socket(self) -> Path:
        """The socket's path, which PostgreSQL derives from the port."""
        return _socket_in(self.socket_folder)

    def server(self, pid: int) -> Server:
        """Describe the server that runs here."""
        return Server(
            dsn=_dsn(self.socket_folder, DATABASE),
            data=self.folder.path,
            socket_folder=self.socket_folder,
            version=self.binaries.version,
            pid=pid,
            host_shown=f"embedded PostgreSQL {self.binaries.version} (private socket in {self.socket_folder})",
        )


@contextmanager
def placed(folder: DataFolder, binaries_folder: Path | None) -> Iterator[Place]:
    """Choose user and binaries for a held data folder, and make a socket folder. Raises EmbeddedUnavailable."""
    owner = folder.path.stat()
    identity = choose_identity(owner.st_uid, owner.st_gid)
    found = find_binaries(binaries_folder, major=folder.major())
    with _socket_folder() as socket_folder:
        for ours in (folder.path, socket_folder):
            identity.owns(ours)
        yield Place(
            folder=folder,
            binaries=readable_by(identity, found, folder.binaries),
            identity=identity,
            socket_folder=socket_folder,
        )


@contextmanager
def _socket_folder() -> Iterator[Path]:
    made = _make_socket_folder()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _make_socket_folder() -> Path:
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        try:
            made = Path(tempfile.mkdtemp(prefix="wakeful-", dir=parent)).resolve()
        except OSError:
            continue
        if len(bytes(_socket_in(made))) <= _LONGEST_SOCKET_PATH:
            return made
        made.rmdir()
    raise EmbeddedUnavailable(
        "no folder for the server's socket can be made: set TMPDIR to a short, writable one"
    )


def _socket_in(folder: Path) -> Path:
    return folder / f".s.PGSQL.{_PORT}"


def _dsn(socket_folder: Path, database: str) -> str:
    return f"postgresql://{USER}@/{quote(database, safe='')}?host={quote(str(socket_folder), safe='/')}&port={_PORT}"
