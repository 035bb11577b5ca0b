"""Apprise, the real one, in its process: what its outcomes mean, that it is killed in time, and learns no secret."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path

import anyio
import pytest

from support.messages import PAYLOAD_VALUE, body, delivery
from support.receiver import refuse, running_receiver
from support.vendors import outcome, settings_of, shows_a_secret, sink_of, tried
from wakeful.errors import ConfigError
from wakeful.outbox.sinks import build_sinks
from wakeful.outbox.sinks.apprise import AppriseSink
from wakeful.telemetry.bus import Telemetry

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
urls = sys.stdin.read()
open(sys.argv[0] + ".started", "w").write(str(__import__("os").getpid()))
time.sleep(600)
"""


async def test_it_delivers_to_each_of_its_urls() -> None:
    async with running_receiver() as one, running_receiver() as two:
        urls = " ".join(receiver.url.replace("http://", "json://") for receiver in (one, two))
        answered = await tried(sink_of("apprise", urls, timeout=60))

    assert outcome(answered) == "sent", answered
    for receiver in (one, two):
        (received,) = receiver.received
        told = json.loads(received.body)
        assert "COLLECT died" in told["title"]
        assert "37 times" in told["message"]
        assert PAYLOAD_VALUE not in str(told)


@pytest.mark.parametrize("url", ["RECEIVER", "nonsense://SECRET0"])
async def test_what_it_can_not_deliver_is_tried_again(url: str) -> None:
    async with running_receiver(otherwise=refuse(500)) as receiver:
        leads_to = receiver.url.replace("http://", "json://") if url == "RECEIVER" else url
        answered = await tried(sink_of("apprise", leads_to, timeout=60))

    assert outcome(answered) == "retry"
    assert "Apprise" in str(answered)
    assert shows_a_secret([answered], "SECRET0", "s3cr3t") == []


async def test_its_process_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(STUBBORN)
    started = tmp_path / "stubborn.py.started"
    sink = sink_of("apprise", "json://127.0.0.1/", timeout=60)
    assert isinstance(sink, AppriseSink)

    async with anyio.create_task_group() as group:
        group.start_soon(replace(sink, program=program).send, delivery())
        with anyio.fail_after(30):
            while not (started.exists() and started.read_text()):
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


async def test_a_program_that_dies_is_a_failure(tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text("import os; os.abort()")
    sink = sink_of("apprise", "json://127.0.0.1/", timeout=60)
    assert isinstance(sink, AppriseSink)

    answered = await tried(replace(sink, program=program))

    assert outcome(answered) == "retry"
    assert "ended with code" in str(answered)


async def test_the_process_inherits_no_variable_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://bob:SECRET0@host/name")
    program = tmp_path / "looks.py"
    program.write_text(
        "import os, sys; sys.exit(10 if 'DATABASE_URL' in os.environ or 'json' in str(sys.argv) else 0)"
    )
    sink = sink_of("apprise", "json://127.0.0.1/", timeout=60)
    assert isinstance(sink, AppriseSink)

    assert outcome(await tried(replace(sink, program=program), delivery(body()))) == "sent"


def test_without_the_extra_a_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = PathFinder.find_spec

    def without(name: str, path: object = None, target: object = None) -> object:
        return None if name == "apprise" else found(name, path, target)  # type: ignore[arg-type]

    monkeypatch.setattr(PathFinder, "find_spec", without)
    monkeypatch.delitem(sys.modules, "apprise", raising=False)

    with pytest.raises(ConfigError, match=r'pip install "wakeful\[apprise\]"'):
        build_sinks({"phone": settings_of("apprise", "json://host")}, Telemetry(strict=True))
