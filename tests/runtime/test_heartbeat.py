"""The heartbeat: called while the process is ready, silent when it is not, and never loud about its own trouble."""

# ruff: noqa: SIM117 -- the receiver's address is needed for the settings
from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio
import pytest
from aiohttp import web

from support.databases import ClonedDatabase
from support.eventually import eventually
from support.process import running_daemon
from support.receiver import Received, Receiver, refuse, running_receiver, stall
from support.vendors import shows_a_secret
from wakeful.core.settings import HeartbeatSettings
from wakeful.outbox.heartbeat import run_heartbeat
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import HEARTBEAT_HEARD, HEARTBEAT_UNHEARD
from wakeful.telemetry.recorder import Recorder

BRISK = 0.02


class Process:
    """Whether the process is ready, and what it says."""

    def __init__(self, *, ready: bool) -> None:
        self.ready = ready
        self.looked = 0
        self.telemetry, self.recorder = Telemetry(strict=True), Recorder()
        self.telemetry.subscribe(self.recorder)

    def is_ready(self) -> bool:
        self.looked += 1
        return self.ready

    async def looks(self) -> int:
        return self.looked


@asynccontextmanager
async def beating(settings: HeartbeatSettings, *, ready: bool = True) -> AsyncIterator[Process]:
    process, stop = Process(ready=ready), anyio.Event()
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await run_heartbeat(settings, stop, telemetry=process.telemetry, is_ready=process.is_ready)

        group.start_soon(run)
        yield process
        stop.set()


async def calls(receiver: Receiver, number: int) -> None:
    async def seen() -> int:
        return len(receiver.received)

    await eventually(seen, until=lambda found: found >= number, timeout=30)


@pytest.mark.parametrize(("method", "verb"), [("get", "GET"), ("post", "POST")])
async def test_it_is_called_again_and_again(method: Literal["get", "post"], verb: str) -> None:
    verbs = []

    async def take(_received: Received, request: web.Request) -> web.StreamResponse:
        verbs.append(request.method)
        return web.Response()

    async with running_receiver(otherwise=take) as receiver:
        async with beating(HeartbeatSettings(url=receiver.url, every=BRISK, method=method)) as process:
            await calls(receiver, 3)

    assert set(verbs) == {verb}
    assert receiver.received[0].path.endswith("?sig=s3cr3t%2Fvalue")
    assert process.recorder.names() == []


async def test_a_process_that_is_not_ready_calls_nobody() -> None:
    async with running_receiver() as receiver:
        settings = HeartbeatSettings(url=receiver.url, every=BRISK)
        async with beating(settings, ready=False) as process:
            await eventually(process.looks, until=lambda number: number >= 5, timeout=30)
            assert receiver.received == []
            process.ready = True
            await calls(receiver, 1)


async def test_trouble_is_told_once_and_its_end_too_without_the_address() -> None:
    async with running_receiver(*[refuse(500)] * 5) as receiver:
        async with beating(HeartbeatSettings(url=receiver.url, every=BRISK)) as process:
            await process.recorder.seen(HEARTBEAT_HEARD, within=30)

    (told,) = process.recorder.of(HEARTBEAT_UNHEARD)
    assert "500 Internal Server Error" in str(told["error"])
    assert shows_a_secret([told], "SECRET0", "s3cr3t") == []
    assert process.recorder.names() == ["heartbeat.unheard", "heartbeat.heard"]


async def test_one_that_never_answers_costs_its_time_and_no_more() -> None:
    async with running_receiver(stall) as receiver:
        settings = HeartbeatSettings(url=receiver.url, every=BRISK, timeout=0.2)
        async with beating(settings) as process:
            told = await process.recorder.seen(HEARTBEAT_UNHEARD, within=30)
            await process.recorder.seen(HEARTBEAT_HEARD, within=30)

    assert "no answer within 0.2 s" in str(told["error"])


async def test_a_redirect_is_not_followed() -> None:
    async with running_receiver() as elsewhere:
        async with running_receiver(otherwise=refuse(307, Location=elsewhere.url)) as receiver:
            async with beating(HeartbeatSettings(url=receiver.url, every=BRISK)) as process:
                await process.recorder.seen(HEARTBEAT_UNHEARD, within=30)
                await calls(receiver, 2)

    assert elsewhere.received == []


async def test_its_file_is_read_again_at_each_call(tmp_path: Path) -> None:
    file = tmp_path / "url"
    async with running_receiver() as old, running_receiver() as new:
        file.write_text(old.url)
        async with beating(HeartbeatSettings(url_file=str(file), every=BRISK)) as process:
            await calls(old, 1)
            file.unlink()
            await process.recorder.seen(HEARTBEAT_UNHEARD, within=30)
            file.write_text(new.url)
            await calls(new, 1)


async def test_without_an_address_it_only_waits_for_its_end() -> None:
    async with beating(HeartbeatSettings()) as process:
        pass

    assert process.recorder.names() == []


async def test_a_daemon_calls_while_it_serves(db: ClonedDatabase) -> None:
    async with running_receiver() as receiver:
        settings = {"heartbeat.url": receiver.url, "heartbeat.every": "1s"}
        with running_daemon(db.dsn, settings=settings):
            await calls(receiver, 2)
