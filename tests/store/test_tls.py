"""TLS to the server: what a DSN or the environment asks for holds for every connection, and a refusal says why."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from support.cluster import Cluster
from support.commands import wakeful
from support.databases import ClonedDatabase
from support.eventually import eventually
from support.process import running_daemon
from support.proxy import Proxy
from support.tls import (
    HAS_OPENSSL,
    HAS_SERVER,
    WHERE_FROM,
    Authority,
    Issued,
    Terminator,
    terminating,
    tls_server,
)
from support.working import telling
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import StoreUnavailable
from wakeful.store.connect import open_connection
from wakeful.store.database import open_database
from wakeful.store.listener import run_listener
from wakeful.telemetry.events import LISTENER_LOST

pytestmark = pytest.mark.skipif(not HAS_OPENSSL, reason=WHERE_FROM)
PASSWORD = "s3cr3t-of-the-test"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("tls") / "stranger")


@pytest.fixture(scope="module")
def for_localhost(authority: Authority) -> Issued:
    return authority.issue("localhost")


@pytest.fixture
def server(cluster: Cluster, for_localhost: Issued) -> Iterator[Terminator]:
    with terminating(cluster.socket, for_localhost) as terminator:
        yield terminator


async def connect(dsn: str) -> None:
    """Run a statement. Raises StoreUnavailable."""
    telemetry, _ = telling()
    async with open_database(DatabaseSettings(dsn=dsn), telemetry) as database:
        await database.fetch("read_identity")


async def why_not(dsn: str) -> str:
    """What people are told of a connection that can't be made; never the password."""
    with pytest.raises(StoreUnavailable) as caught:
        await connect(dsn)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


async def test_a_trusted_certificate_of_the_right_host_is_accepted(
    db: ClonedDatabase, server: Terminator, authority: Authority
) -> None:
    await connect(server.dsn(db.name, sslmode="verify-full", sslrootcert=authority.root))

    assert server.clients == ["wakeful"]


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
async def test_a_certificate_of_somebody_else_is_refused(
    db: ClonedDatabase, server: Terminator, stranger: Authority, sslmode: str
) -> None:
    said = await why_not(server.dsn(db.name, password=PASSWORD, sslmode=sslmode, sslrootcert=stranger.root))

    assert "certificate" in said
    assert "sslrootcert" in said
    assert server.clients == []


async def test_the_certificate_of_another_host_is_refused_by_verify_full_alone(
    db: ClonedDatabase, server: Terminator, authority: Authority
) -> None:
    root = authority.root
    said = await why_not(
        server.dsn(db.name, host="127.0.0.1", password=PASSWORD, sslmode="verify-full", sslrootcert=root)
    )
    assert "127.0.0.1" in said
    assert "certificate" in said

    await connect(server.dsn(db.name, host="127.0.0.1", sslmode="verify-ca", sslrootcert=root))
    assert server.clients == ["wakeful"]


async def test_no_certificates_to_trust_is_said_and_not_left_out(
    db: ClonedDatabase, server: Terminator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    missing = server.dsn(
        db.name, password=PASSWORD, sslmode="verify-full", sslrootcert=tmp_path / "nothing.pem"
    )

    assert "sslrootcert" in await why_not(missing)
    assert "root.crt" in await why_not(server.dsn(db.name, password=PASSWORD, sslmode="verify-full"))
    assert server.clients == []


@pytest.mark.parametrize("sslmode", ["require", "verify-full"])
async def test_a_server_without_tls_is_refused(
    db: ClonedDatabase, proxy: Proxy, authority: Authority, sslmode: str
) -> None:
    address = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{proxy.port}/{db.name}"

    said = await why_not(f"{address}?sslmode={sslmode}&sslrootcert={authority.root}")

    assert "SSL" in said


async def test_without_an_sslmode_a_server_that_can_is_asked_for_tls(
    db: ClonedDatabase, server: Terminator
) -> None:
    await connect(server.dsn(db.name))

    assert server.clients == ["wakeful"]


async def test_a_client_shows_its_certificate(
    db: ClonedDatabase, cluster: Cluster, for_localhost: Issued, authority: Authority, stranger: Authority
) -> None:
    ours, theirs = authority.issue("a-worker"), stranger.issue("a-stranger")
    trust = {"sslmode": "verify-full", "sslrootcert": str(authority.root)}

    with terminating(cluster.socket, for_localhost, clients=authority) as server:
        await why_not(server.dsn(db.name, password=PASSWORD, **trust))
        await why_not(
            server.dsn(db.name, password=PASSWORD, sslcert=theirs.certificate, sslkey=theirs.key, **trust)
        )
        assert server.clients == []
        await connect(server.dsn(db.name, sslcert=ours.certificate, sslkey=ours.key, **trust))
        assert server.certificates == ["a-worker"]


async def test_the_environment_of_libpq_counts_where_the_dsn_is_silent(
    db: ClonedDatabase,
    server: Terminator,
    authority: Authority,
    stranger: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(stranger.root))

    assert "certificate" in await why_not(server.dsn(db.name, password=PASSWORD))
    await connect(server.dsn(db.name, sslrootcert=authority.root))
    assert server.clients == ["wakeful"]


async def test_the_listener_is_refused_the_same(
    db: ClonedDatabase, server: Terminator, authority: Authority, stranger: Authority
) -> None:
    """It has a DSN of its own, perhaps, and its own way to connect."""
    telemetry, recorder = telling()
    settings = DatabaseSettings(
        dsn=db.dsn,
        listen_dsn=server.dsn(db.name, password=PASSWORD, sslmode="verify-full", sslrootcert=stranger.root),
    )
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(run_listener, settings, stop, telemetry=telemetry, on_notify=lambda _: None))
        said = str(await recorder.seen(LISTENER_LOST))
        stop.set()

    assert "certificate" in said
    assert PASSWORD not in said
    assert server.clients == []


async def test_every_connection_of_a_daemon_is_encrypted(
    db: ClonedDatabase, server: Terminator, authority: Authority
) -> None:
    dsn = server.dsn(db.name, sslmode="verify-full", sslrootcert=authority.root)

    async def seen() -> list[str | None]:
        return server.clients

    with running_daemon(dsn, settings={"lease.beat": "1s"}) as daemon:
        daemon.wait_for("listener.connected")
        await eventually(seen, until={"wakeful", "wakeful listener", "wakeful beat"}.issubset)
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0

    assert server.in_the_clear == 0


async def test_the_command_line_says_what_is_wrong(
    db: ClonedDatabase, server: Terminator, stranger: Authority
) -> None:
    dsn = server.dsn(db.name, password=PASSWORD, sslmode="verify-full", sslrootcert=stranger.root)

    ended = await wakeful("jobs", "list", environ={"DATABASE_URL": dsn})

    assert ended.code == 1
    assert "certificate" in ended.err
    assert PASSWORD not in ended.out + ended.err


@pytest.mark.skipif(not HAS_SERVER, reason="needs a PostgreSQL with TLS: apt-get install postgresql")
async def test_postgresqls_own_tls_is_checked_the_same(
    tmp_path: Path, for_localhost: Issued, authority: Authority, stranger: Authority
) -> None:
    with tls_server(tmp_path / "data", for_localhost) as port:
        address = (
            f"postgresql://postgres:{PASSWORD}@localhost:{port}/postgres?sslmode=verify-full&sslrootcert="
        )

        async def encrypted() -> object:
            settings = DatabaseSettings(dsn=f"{address}{authority.root}")
            try:
                opened = await open_connection(settings, application="under test")
            except StoreUnavailable:
                return None  # it is starting
            try:
                return await opened.connection.fetchval(
                    "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
                )
            finally:
                await opened.connection.close()

        assert await eventually(encrypted, timeout=30) is True
        assert "certificate" in await why_not(f"{address}{stranger.root}")
