"""Alerts by Apprise, for the many services that have no sink of their own: an extra, in a process of its own.

Success is what Apprise calls one: it tells no status, no Retry-After and no reason, so every failure is tried again.
It sleeps and blocks as it likes, so it runs apart, and is killed with its children when its time is over; it ends by
itself soon after where the daemon is not there any more. Its URLs go there by a pipe: neither a command line nor an
environment holds them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

from wakeful.config import current_url
from wakeful.core.secrets import hidden_values
from wakeful.core.settings import SinkSettings
from wakeful.errors import ConfigError
from wakeful.outbox.cards.document import Message, read
from wakeful.outbox.cards.letters import headline, plain_text
from wakeful.outbox.sinks import apprise_process
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent
from wakeful.store.outbox import Delivery
from wakeful.telemetry.redaction import Redactor

PACE: Final = 1.0
_PROGRAM: Final = Path(apprise_process.__file__)
_INHERITED: Final = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "SYSTEMROOT"}
)
_MEANINGS: Final[Mapping[int, str]] = {
    apprise_process.SOME_FAILED: "Apprise could not deliver it, and tells no reason",
    apprise_process.NOT_UNDERSTOOD: "Apprise does not understand a URL of it",
}


def check_installed(name: str) -> None:
    """Raise ConfigError where the extra is missing."""
    if find_spec("apprise") is None:
        text = 'is "apprise", which is not installed: pip install "wakeful[apprise]"'
        raise ConfigError((f"sinks.{name}.kind: {text}",))


@dataclass(frozen=True, slots=True)
class AppriseSink:
    """Hands each message to Apprise. Its `url` may be several, with blanks between."""

    name: str
    settings: SinkSettings = field(repr=False)
    redactor: Redactor = field(repr=False)
    pace: float = PACE
    program: Path = _PROGRAM

    @property
    def timeout(self) -> float:
        """The bound of one try, in seconds."""
        return self.settings.timeout

    async def send(self, delivery: Delivery) -> Answer:
        """Have it sent once."""
        try:
            check_installed(self.name)
            urls = current_url(self.name, self.settings).split()
        except ConfigError as error:
            return Failed(reason=str(error))
        self.redactor.add(*(value for url in urls for value in hidden_values(url)))
        try:
            message = read(delivery.body)
        except ValueError as error:
            return Failed(reason=f"no text can be made of it: {error}", permanent=True)
        return await self._told(_told(urls, message, self.timeout))

    async def _told(self, text: bytes) -> Answer:
        # Isolated from where it stands, so that it finds the package and not this file of the same name.
        command = [sys.executable, "-P", str(self.program)]
        environment = {name: value for name, value in os.environ.items() if name in _INHERITED}
        process = await anyio.open_process(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            code = await _ended(process, text)
        finally:
            await _killed(process)
        return Sent("Apprise delivered it") if code == 0 else Failed(reason=_meaning(code))


async def _ended(process: Process, text: bytes) -> int:
    assert process.stdin is not None, "it was asked for"
    try:
        await process.stdin.send(text)
        await process.stdin.aclose()
    except (OSError, anyio.BrokenResourceError):
        pass  # it has ended already, and says how by its code
    return await process.wait()


async def _killed(process: Process) -> None:
    """Kill it with all that its plugins have started, also where it has ended by itself."""
    with anyio.CancelScope(shield=True):
        with suppress(ProcessLookupError, PermissionError):  # nobody of its group is left
            os.killpg(process.pid, signal.SIGKILL)
        await process.aclose()


def _told(urls: list[str], message: Message, seconds: float) -> bytes:
    told = {"urls": urls, "title": headline(message), "body": plain_text(message), "seconds": seconds}
    return json.dumps(told).encode()


def _meaning(code: int) -> str:
    return _MEANINGS.get(code, f"the process that runs Apprise ended with code {code}")
