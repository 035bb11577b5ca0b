"""The one listening connection of a process: it turns notifications into calls, and never stops trying to listen.

Invariant: a notification is a hint (R2). The connection only listens and is never in a transaction; it proves itself by
its own echo at the start and every few seconds, so that a half-open one is noticed; after each LISTEN everything is
looked at once. A payload that makes no sense counts as empty. Where LISTEN does nothing, behind some poolers, that is
said and polls have to do. What a notification leads to is the caller's.
"""

from __future__ import annotations

import random
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

import anyio

from wakeful.core.settings import DatabaseSettings
from wakeful.core.text import clean
from wakeful.errors import StoreUnavailable
from wakeful.store.connect import Connection, hide_password, open_connection
from wakeful.store.statements import statements
from wakeful.store.translation import FOREIGN, translated
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import (
    LISTENER_CONNECTED,
    LISTENER_DEGRADED,
    LISTENER_LOST,
    NOTIFICATION_IGNORED,
    NOTIFICATION_RECEIVED,
)

CHANNEL: Final = "wakeful"
# A connection that is only half there is found, and another one listens, within ten seconds.
ECHO_SECONDS: Final = 5.0
ECHO_TIMEOUT_SECONDS: Final = 3.0
FIRST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 5.0
FIRST_DEGRADED_PAUSE_SECONDS: Final = 10.0
LONGEST_DEGRADED_PAUSE_SECONDS: Final = 300.0
_SHOWN_BYTES: Final = 200
_LANE: Final = re.compile(r"-?[0-9]{1,19}")
_NO_ECHO: Final = (
    "LISTEN is accepted, and nothing arrives: a pooler in transaction mode? give [database] listen_dsn"
)

OnNotify = Callable[[int | None], None]


class NothingArrives(Exception):
    """The server takes LISTEN and NOTIFY, but this connection hears nothing."""


@dataclass(slots=True, kw_only=True)
class Listening:
    """What the listener needs, and what it has said last."""

    settings: DatabaseSettings
    telemetry: Telemetry
    on_notify: OnNotify
    turned: Callable[[], None]
    echo_interval: float
    echo_timeout: float
    said: Literal["nothing", "connected", "lost", "degraded"] = "nothing"
    since: float = 0.0
    failures: int = 0


async def run_listener(
    settings: DatabaseSettings,
    stop: anyio.Event,
    *,
    telemetry: Telemetry,
    on_notify: OnNotify,
    echo_interval: float = ECHO_SECONDS,
    echo_timeout: float = ECHO_TIMEOUT_SECONDS,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """Listen until `stop` is set; `on_notify` is called with a lane id, or with None: look at everything."""
    listening = Listening(
        settings=settings,
        telemetry=telemetry,
        on_notify=on_notify,
        turned=turned,
        echo_interval=echo_interval,
        echo_timeout=echo_timeout,
        since=time.monotonic(),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(_listen_for_ever, listening)
        await stop.wait()
        group.cancel_scope.cancel()


async def _listen_for_ever(listening: Listening) -> None:
    while True:
        listening.turned()
        try:
            await _listen(listening)
        except NothingArrives:
            _say(listening, "degraded", reason=_NO_ECHO)
            pause = _pause(listening, FIRST_DEGRADED_PAUSE_SECONDS, LONGEST_DEGRADED_PAUSE_SECONDS)
        except StoreUnavailable as error:
            _say(listening, "lost", reason=str(error))
            pause = _pause(listening, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        await anyio.sleep(pause)


async def _listen(listening: Listening) -> NoReturn:
    """Connect and listen; always ends by an error. The connection is cut, never asked to close: it may be half-open."""
    hide_password(listening.settings, listening.telemetry.redactor, listen=True)
    opened = await open_connection(listening.settings, application="wakeful listener", listen=True)
    ear = _Ear(opened.connection, listening)
    try:
        await ear.listen(alone=not opened.pooled)
        listening.on_notify(None)
        if not (await _hears_another(ear, listening) if opened.pooled else await ear.hears_itself()):
            raise NothingArrives
        _say(listening, "connected", reason="")
        while not await ear.ended_within(listening.echo_interval):
            listening.turned()
            if not await ear.hears_itself():
                raise StoreUnavailable("listen: the connection hears nothing any more")
        raise StoreUnavailable("listen: the server ended the connection")
    finally:
        opened.connection.terminate()


async def _hears_another(ear: _Ear, listening: Listening) -> bool:
    """Whether an idle connection behind a pooler hears what another one says.

    Its own echo proves nothing there: a pooler in transaction mode lends the session back for just that statement.
    """
    other = await open_connection(
        listening.settings, application="wakeful listener", pooled=True, listen=True
    )
    try:
        return await ear.hears(other.connection)
    finally:
        other.connection.terminate()


class _Ear:
    """One connection that listens."""

    def __init__(self, connection: Connection, listening: Listening) -> None:
        self._connection = connection
        self._listening = listening
        # A channel of its own, so that echoes wake nobody else.
        self._echo_channel = f"{CHANNEL}_echo_{secrets.token_hex(8)}"
        self._awaited = ""
        self._changed = anyio.Event()
        self._ended = anyio.Event()

    async def listen(self, *, alone: bool) -> None:
        """Start to listen; `alone`: the session is ours, no pooler shares it."""
        self._connection.add_termination_listener(self._on_end)
        if alone:
            await self._within(self._connection.fetch(statements()["stay_idle"]))
        await self._within(self._connection.add_listener(self._echo_channel, self._on_echo))
        await self._within(self._connection.add_listener(CHANNEL, self._on_notification))

    async def hears_itself(self) -> bool:
        """Send an echo and wait for it; False: it was sent, and did not come. Raises StoreUnavailable."""
        return await self.hears(self._connection)

    async def hears(self, speaker: Connection) -> bool:
        """The same, with an echo that `speaker` sends."""
        self._awaited, self._changed = secrets.token_hex(8), anyio.Event()
        await self._within(speaker.fetch(statements()["echo"], self._echo_channel, self._awaited))
        with anyio.move_on_after(self._listening.echo_timeout):
            await self._changed.wait()
        return self._awaited == "" or self._ended.is_set()

    async def ended_within(self, seconds: float) -> bool:
        """Wait; True when the connection has ended."""
        with anyio.move_on_after(seconds):
            await self._ended.wait()
        return self._ended.is_set()

    async def _within(self, call: Awaitable[object]) -> None:
        try:
            with anyio.fail_after(self._listening.echo_timeout):
                await call
        except FOREIGN as error:
            raise StoreUnavailable(str(translated(error, "listen"))) from error

    def _on_end(self, _connection: object) -> None:
        self._ended.set()
        self._changed.set()

    def _on_echo(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == self._awaited:
            self._awaited = ""
            self._changed.set()

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        """Called by the driver: nothing that anybody can put into a payload may raise here."""
        telemetry, lane_id = self._listening.telemetry, lane_in(str(payload))
        if lane_id is None and payload:
            telemetry.emit(NOTIFICATION_IGNORED, payload=clean(payload, _SHOWN_BYTES))
        else:
            telemetry.emit(NOTIFICATION_RECEIVED, lane_id=lane_id)
        self._listening.on_notify(lane_id)


def lane_in(payload: str) -> int | None:
    """The lane id that a payload is; None for an empty one and for anything else."""
    if not _LANE.fullmatch(payload):
        return None
    lane_id = int(payload)
    return lane_id if -(2**63) <= lane_id < 2**63 else None


def _say(listening: Listening, what: Literal["connected", "lost", "degraded"], *, reason: str) -> None:
    """Tell a change of state, once."""
    now, before = time.monotonic(), listening.said
    if what == "connected":
        listening.failures = 0
    if before == what:
        return
    listening.said = what
    if what == "connected":
        listening.telemetry.emit(LISTENER_CONNECTED, seconds=round(now - listening.since, 3))
    elif what == "lost":
        listening.telemetry.emit(LISTENER_LOST, error=reason)
    else:
        listening.telemetry.emit(LISTENER_DEGRADED, reason=reason)
    if before == "connected":
        listening.since = now


def _pause(listening: Listening, first: float, longest: float) -> float:
    """Seconds until the next try: doubled with each failure, capped, jittered."""
    seconds = min(longest, first * 2.0 ** min(listening.failures, 20))
    listening.failures += 1
    return seconds * random.uniform(0.5, 1.0)
