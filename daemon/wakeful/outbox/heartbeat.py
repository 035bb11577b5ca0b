"""The heartbeat for somebody outside: a URL that is called while this instance serves, and not else.

Invariant: a process that is dead, stuck or not ready calls nobody, and its silence is what is heard. One that can't be
heard says so in its log, once until it is heard again: never by an alert, and never more often than it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio

from wakeful.aio.periodic import every
from wakeful.config import current_heartbeat
from wakeful.core.secrets import hidden_values, shown
from wakeful.core.settings import HeartbeatSettings
from wakeful.errors import ConfigError
from wakeful.outbox.sinks.exchange import NotReached, Request, exchange
from wakeful.outbox.sinks.verdicts import named
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import HEARTBEAT_HEARD, HEARTBEAT_UNHEARD

_EMPTY: Final = Request(body=b"", headers={})


async def run_heartbeat(
    settings: HeartbeatSettings, stop: anyio.Event, *, telemetry: Telemetry, is_ready: Callable[[], bool]
) -> None:
    """Call every `settings.every` seconds while `is_ready`, until `stop` is set; without a URL, wait for that."""
    if settings.url is None and settings.url_file is None:
        await stop.wait()
        return
    calling = _Calling(settings, telemetry)
    async for _ in every(settings.every, stop):
        if is_ready():
            await calling.call()


@dataclass(slots=True)
class _Calling:
    """`heard`: whether the last call was."""

    settings: HeartbeatSettings
    telemetry: Telemetry
    heard: bool = True

    async def call(self) -> None:
        """Call once, and tell where that is news."""
        problem = f"no answer within {self.settings.timeout:g} s"
        with anyio.move_on_after(self.settings.timeout):
            problem = await self._problem()
        if problem and self.heard:
            self.telemetry.emit(HEARTBEAT_UNHEARD, error=problem)
        if not problem and not self.heard:
            self.telemetry.emit(HEARTBEAT_HEARD)
        self.heard = not problem

    async def _problem(self) -> str:
        """Say what went wrong; nothing where the call was answered with 2xx."""
        try:
            url = current_heartbeat(self.settings)
        except ConfigError as error:
            return str(error)
        self.telemetry.redactor.add(*hidden_values(url))
        try:
            reply = await exchange(url, _EMPTY if self.settings.method == "post" else None)
        except NotReached as error:
            return f"{shown(url)}: {error}"
        return "" if 200 <= reply.status < 300 else f"{shown(url)}: {named(reply.status)}"
