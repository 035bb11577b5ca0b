"""One connection to PostgreSQL, made the way this process needs it, and what it says about the server behind it.

Invariant: no session state is relied upon that a transaction pooler would lose; where the server is reached directly,
isolation, time-outs and the search path are fixed in the start-up packet, whatever the role's defaults are. The DSN's
file is read anew at each connect and its host resolved anew: rotated passwords and moved servers need no restart.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from wakeful.config import current_dsn, current_listen_dsn
from wakeful.core.secrets import hidden_values
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import ConfigError, StoreError, StoreUnavailable
from wakeful.store.translation import FOREIGN, translated
from wakeful.telemetry.redaction import Redactor

Connection = asyncpg.Connection

CLOSE_SECONDS: Final = 0.5
# A plan is kept for as long as its connection. One that was made while a table was empty would read all of it and sort
# it, hours later: 5 s for a look at 100 lanes with 80,000 jobs. Behind a pooler each statement is planned anew.
PLANNED_FOR_LONG: Final = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
_UNSUPPORTED_PARAMETER: Final = "unsupported startup parameter"
_UNREADABLE: Final = (
    "connect: the DSN can't be read; write special characters of a password in percent form, # as %23"
)
_NOT_TRUSTED: Final = (
    "connect: the server's certificate is not accepted: {}; "
    "sslmode says what is checked, sslrootcert names who is trusted"
)
_NO_FILE: Final = (
    "connect: no such file: the unix socket of the server, "
    "or what sslrootcert, sslcert, sslkey or sslcrl names"
)
_SERVER: Final = """
select pg_backend_pid() as pid, pg_postmaster_start_time() as started_at, pg_is_in_recovery() as standby,
       current_setting('transaction_read_only') = 'on' as read_only,
       case when pg_is_in_recovery() then null else left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What tells one server, or one life of it, from another (I4)."""

    started_at: datetime
    timeline: str | None

    def __str__(self) -> str:
        return f"started {self.started_at.isoformat(sep=' ', timespec='milliseconds')}, timeline {self.timeline or '?'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A connection that works, the server it reached, and whether a pooler stands between."""

    connection: Connection
    server: Server
    pooled: bool


async def open_connection(
    settings: DatabaseSettings, *, application: str, pooled: bool = False, listen: bool = False
) -> Opened:
    """Connect within the connect time-out. Raises StoreUnavailable, also for a standby that takes no writes."""
    pooled = pooled or settings.pooler == "transaction"
    try:
        opened = await _probe(settings, application=application, pooled=pooled, listen=listen)
        if opened.pooled and not pooled and settings.pooler == "auto":
            await _discard(opened.connection)
            opened = await _probe(settings, application=application, pooled=True, listen=listen)
    except StoreError:
        raise
    except ConfigError as error:
        # A file with the DSN that is being replaced; that there is a DSN at all was checked at the start.
        raise StoreUnavailable(str(error)) from error
    except Exception as error:
        raise _unavailable(error) from error
    return opened


def hide_password(settings: DatabaseSettings, redactor: Redactor, *, listen: bool = False) -> None:
    """Let the password that the next connect reads, a rotated one perhaps, come through in no log line."""
    with suppress(ConfigError):  # which the connect will raise as well
        redactor.add(*hidden_values(current_listen_dsn(settings) if listen else current_dsn(settings)))


async def _probe(settings: DatabaseSettings, *, application: str, pooled: bool, listen: bool) -> Opened:
    try:
        connection = await _connect(settings, application=application, pooled=pooled, listen=listen)
    except asyncpg.PostgresError as error:
        if pooled or _UNSUPPORTED_PARAMETER not in str(error):
            raise
        return await _probe(settings, application=application, pooled=True, listen=listen)
    try:
        (row,) = await connection.fetch(_SERVER, timeout=settings.connect_timeout)
        if row["standby"]:
            raise StoreUnavailable("the server is a standby and takes no writes")
        if row["read_only"]:
            raise StoreUnavailable("sessions are read-only here (default_transaction_read_only)")
    except BaseException:
        connection.terminate()
        raise
    # A pooler answers the start-up with a key of its own: the pid in it is not the pid of the backend.
    behind_pooler = pooled or row["pid"] != connection.get_server_pid()
    server = Server(started_at=row["started_at"], timeline=row["timeline"])
    return Opened(connection=connection, server=server, pooled=behind_pooler)


async def _connect(settings: DatabaseSettings, *, application: str, pooled: bool, listen: bool) -> Connection:
    parameters = {"application_name": application}
    if not pooled:
        milliseconds = str(int(settings.statement_timeout * 1000))
        parameters |= {
            "search_path": "pg_catalog, pg_temp",  # nobody's lookalikes, whoever may create in a schema of the role's
            "default_transaction_isolation": "read committed",
            "statement_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds,
            "jit": "off",
            **PLANNED_FOR_LONG,
        }
    connection = await asyncpg.connect(
        current_listen_dsn(settings) if listen else current_dsn(settings),
        timeout=settings.connect_timeout,
        statement_cache_size=0 if pooled else 200,
        max_cached_statement_lifetime=0,
        server_settings=parameters,
    )
    keep_alive(connection)
    return connection


def keep_alive(connection: Connection) -> None:
    """Let the kernel notice a host that vanished: asyncpg sets none of these. A unix socket has none to set."""
    transport = getattr(connection, "_transport", None)
    raw = transport.get_extra_info("socket") if transport is not None else None
    if raw is None or raw.family == getattr(socket, "AF_UNIX", None):
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 20_000),
    ):
        if hasattr(socket, option):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def _discard(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except FOREIGN:
        connection.terminate()


def _unavailable(error: Exception) -> StoreUnavailable:
    if isinstance(error, ssl.SSLCertVerificationError):  # a ValueError, too
        return StoreUnavailable(_NOT_TRUSTED.format(error.verify_message))
    if isinstance(error, FileNotFoundError):
        return StoreUnavailable(_NO_FILE)
    if isinstance(error, ValueError) and not isinstance(error, asyncpg.InterfaceError):
        # Its text repeats the part of the DSN that could not be read, and that may be a piece of the password.
        return StoreUnavailable(_UNREADABLE)
    ours = translated(error, "connect")
    if isinstance(ours, StoreUnavailable):
        return ours
    return StoreUnavailable(str(ours))
