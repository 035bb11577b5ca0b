"""A PostgreSQL that asks for TLS, with certificates made for one test: nothing is trusted that the test has not made.

The embedded server is built without TLS, so an end of TLS stands before it and speaks the protocol's first message as
a server does: it is asked for TLS, answers, shakes hands, and passes on what comes after. Keys never leave the folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

from anyio.from_thread import start_blocking_portal

from support.startup import application_name
from wakeful.embedded.folder import held_folder
from wakeful.embedded.place import placed
from wakeful.embedded.process import make_cluster

WHERE_FROM = "needs the command `openssl`: apt-get install openssl"
HAS_SERVER = any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
HAS_OPENSSL = shutil.which("openssl") is not None
_TLS_PLEASE = 80877103
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Somebody who issues certificates, good for two days."""

    folder: Path
    root: Path

    @classmethod
    def made(cls, folder: Path) -> Authority:
        """Make one of its own in an empty folder."""
        folder.mkdir()
        _openssl(
            *("req", "-x509", *_KEY, "-subj", "/CN=an authority of a test", "-days", "2"),
            *("-keyout", str(folder / "root.key"), "-out", str(folder / "root.pem")),
        )
        return cls(folder, folder / "root.pem")

    def issue(self, name: str) -> Issued:
        """Issue a certificate for a host of this name, or for a user."""
        issued = Issued(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=DNS:{name}\n")
        _openssl(
            *("req", *_KEY, "-subj", f"/CN={name}", "-keyout", str(issued.key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extensions)),
            *("-CA", str(self.root), "-CAkey", str(self.folder / "root.key"), "-CAcreateserial"),
            *("-out", str(issued.certificate)),
        )
        return issued


@dataclass(slots=True)
class Terminator:
    """What has come in so far: names of the clients that shook hands (and of their certificates), and refused ones."""

    port: int = 0
    clients: list[str | None] = field(default_factory=list)
    certificates: list[str] = field(default_factory=list)
    in_the_clear: int = 0

    def dsn(
        self, database: str, *, host: str = "localhost", password: str = "", **options: str | Path
    ) -> str:
        """DSN of a database behind it; `options` such as sslmode go into its query."""
        query = urlencode({name: str(value) for name, value in options.items()})
        return f"postgresql://postgres:{quote(password, safe='')}@{host}:{self.port}/{database}?{query}"


@contextmanager
def terminating(upstream: Path, server: Issued, *, clients: Authority | None = None) -> Iterator[Terminator]:
    """Take TLS only, on a port of 127.0.0.1, before a server's unix socket; `clients`: who must have signed theirs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    if clients is not None:
        context.load_verify_locations(clients.root)
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # says no in the handshake, not after it
    terminator = Terminator()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, ssl.SSLError):
            await _take(terminator, context, upstream, reader, writer)
        writer.close()

    with start_blocking_portal() as portal:
        listening = portal.call(asyncio.start_server, take, "127.0.0.1", 0)
        terminator.port = listening.sockets[0].getsockname()[1]
        try:
            yield terminator
        finally:
            portal.call(listening.close)


async def _take(
    terminator: Terminator,
    context: ssl.SSLContext,
    upstream: Path,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    asked = await reader.readexactly(8)
    if int.from_bytes(asked[4:]) != _TLS_PLEASE:
        terminator.in_the_clear += 1
        return
    writer.write(b"S")
    await writer.start_tls(context)
    shown = writer.get_extra_info("peercert") or {}
    terminator.certificates += [part[0][1] for part in shown.get("subject", ())]
    first = await reader.readexactly(4)
    first += await reader.readexactly(int.from_bytes(first) - 4)
    terminator.clients.append(application_name(first))
    there_reader, there_writer = await asyncio.open_unix_connection(upstream)
    there_writer.write(first)
    await asyncio.wait(
        [
            asyncio.ensure_future(_pass_on(reader, there_writer)),
            asyncio.ensure_future(_pass_on(there_reader, writer)),
        ]
    )


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL)


@contextmanager
def tls_server(folder: Path, issued: Issued) -> Iterator[int]:
    """Run a PostgreSQL of the system's that takes TLS by itself, on a port of 127.0.0.1; gives the port."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    with held_folder(folder) as held, placed(held, installed[-1]) as place, socket.socket() as free:
        make_cluster(place)
        owner = held.cluster.stat()
        for source, name in ((issued.certificate, "server.crt"), (issued.key, "server.key")):
            target = held.cluster / name
            target.write_bytes(source.read_bytes())
            target.chmod(0o600)
            os.chown(target, owner.st_uid, owner.st_gid)
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        settings = {"listen_addresses": "127.0.0.1", "port": port, "ssl": "on", "fsync": "off"}
        settings["unix_socket_directories"] = place.socket_folder
        program = [place.binaries.program("postgres"), "-D", str(held.cluster)]
        program += [f"--{name}={value}" for name, value in settings.items()]
        child = subprocess.Popen(
            place.identity.command(program, on_parent_end=signal.SIGINT),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield port
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(20)
