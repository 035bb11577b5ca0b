"""Handlers in processes of their own: all that they say comes through, as if they had been called here."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.isolated_jobs import registry
from support.isolation import Ledger, gone, ledger, processes
from wakeful import Discard, Fail, JobContext, RateLimited, Registry, Retry, Snooze
from wakeful.core.settings import WorkerSettings
from wakeful.errors import ConfigError, ProcessDied
from wakeful.handlers.invoke import Answer, Raised, Returned
from wakeful.handlers.isolation.answers import RaisedInProcess
from wakeful.handlers.isolation.pool import open_processes
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import PROCESS_ENDED, PROCESS_STARTED
from wakeful.telemetry.recorder import Recorder

__all__ = ["ledger"]


def value_of(answer: Answer | None) -> Any:
    assert isinstance(answer, Returned), answer
    return answer.value


def raised_by(answer: Answer | None) -> BaseException:
    assert isinstance(answer, Raised), answer
    return answer.exception


async def test_one_process_serves_job_after_job_with_its_own_resources(ledger: Ledger) -> None:
    async with processes() as one:
        values = [value_of((await one.run("ECHO", n=n)).answer) for n in range(3)]

    pid = values[0]["pid"]
    assert pid != os.getpid()
    assert [value["pid"] for value in values] == [pid] * 3
    assert values[2]["payload"] == {"n": 2}
    assert values[0]["hooked_in"] == pid
    assert values[2]["resources"] == {"opened_in": pid, "runs": 3}
    assert (values[0]["subject"], values[0]["tags"], values[0]["run_no"]) == ("abc", ["a"], 1)
    assert ledger.path.read_text().splitlines() == [f"entered {pid}", f"left {pid}"]
    await gone(pid)


async def test_the_daemon_enters_no_lifespan_that_only_processes_need(ledger: Ledger) -> None:
    async with registry.open_resources() as resources:
        assert resources.of(registry.find("ECHO")) is None
    assert not ledger.path.exists()

    mixed, entered = Registry(), []

    @mixed.lifespan
    async def lifespan() -> AsyncIterator[str]:
        entered.append("here")
        yield "shared"

    @mixed.job("HERE")
    def here(job: JobContext) -> None: ...

    @mixed.job("THERE", isolation="process")
    def there(job: JobContext) -> None: ...

    async with mixed.open_resources() as resources, mixed.open_isolated_resources() as isolated:
        assert (resources.of(mixed.find("HERE")), isolated.of(mixed.find("THERE"))) == ("shared", "shared")
    assert entered == ["here", "here"]


async def test_a_plain_handler_reports_steps_and_returns_exact_numbers() -> None:
    async with processes() as one:
        ran = await one.run("PLAIN")

    value = value_of(ran.answer)
    assert (value["exact"], value["left"]) == (Decimal("0.10000000000000000001"), True)
    statuses = ran.attempt.writer.steps()
    assert statuses[0] == ("think:running",)
    assert statuses[-1] == ("think:done", "deep:done")
    assert ran.attempt.writer.documents[-1]["steps"][0]["message"] == "half way"


async def test_all_that_an_async_handler_says_comes_through() -> None:
    async with processes() as one:
        ran = await one.run("ASK")
        asked = ran.attempt.job.close()

    assert value_of(ran.answer) == "asked"
    assert ran.attempt.writer.steps()[-1] == ("first:done", "second:done")
    assert ran.attempt.writer.documents[-1]["steps"][0]["percent"] == 100.0
    assert asked.degraded == ("the moon is not out",)
    assert [(alert.kind, alert.severity, alert.subject) for alert in asked.alerts] == [
        ("moon_missing", "error", "abc")
    ]
    (follow_up,) = asked.follow_ups
    assert (follow_up.job_type, follow_up.options_text) == (
        "FOLLOW",
        '{"dedupe_key":"after-ask","tags":["a"]}',
    )
    logged = [line for line in ran.messages if "printed_by=" not in line[1]]
    assert logged[0] == ("warning", "looked up at=sky")
    level, message = logged[1]
    assert level == "error"
    assert "one is missing" in message and "KeyError: 'star'" in message


DIRECTIVES = [
    Retry(700, "later"),
    Snooze(60, "not yet"),
    RateLimited(70, "429"),
    Fail("never"),
    Discard("not wanted"),
]


@pytest.mark.parametrize("meant", DIRECTIVES, ids=lambda one: type(one).__name__)
async def test_a_directive_means_the_same_there(meant: Exception) -> None:
    async with processes() as one:
        raised = raised_by((await one.run("RAISE", what=type(meant).__name__)).answer)

    assert type(raised) is type(meant)
    said = dict(vars(raised))
    place = said.pop("fingerprint", None)  # where it was raised: of those that are failures
    assert said == vars(meant)
    assert (place is not None) == isinstance(meant, Retry | Fail)


@pytest.mark.parametrize(("what", "shown"), [("ValueError", "no such colour"), ("SystemExit", "3")])
async def test_an_error_keeps_its_type_message_and_traceback(what: str, shown: str) -> None:
    async with processes() as one:
        raised = raised_by((await one.run("RAISE", what=what)).answer)
        pids = one.pool.pids
        again = value_of((await one.run("ECHO")).answer)

    assert isinstance(raised, RaisedInProcess)
    assert (raised.entry.type, raised.entry.message) == (what, shown)
    assert "isolated_jobs.py" in (raised.entry.traceback or "")
    assert pids == (again["pid"],)


async def test_a_result_that_is_no_json_is_refused_with_its_reason() -> None:
    async with processes() as one:
        raised = raised_by((await one.run("ODD")).answer)

    assert str(raised) == "ResultRefused: the result can't be stored: $: object is not a JSON value"


async def test_a_process_has_nothing_of_the_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL__DATABASE__DSN", "postgresql://u:s3cr3t@h/d")
    with socket.socket() as connection:
        connection.set_inheritable(True)
        ours = f"socket:[{os.fstat(connection.fileno()).st_ino}]"
        async with processes() as one:
            (pid,) = one.pool.pids
            held = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
            command = Path(f"/proc/{pid}/cmdline").read_bytes()

    assert ours not in held
    assert len([kind for kind in held if kind.startswith("socket:")]) == 3  # its own, and two of its loop
    assert b"s3cr3t" not in command


async def test_without_a_type_that_wants_one_no_process_is_started() -> None:
    plain = Registry()

    @plain.job("PLAIN")
    def handler(job: JobContext) -> None: ...

    async with open_processes(plain, WorkerSettings()) as pool:
        assert pool.pids == ()


async def test_a_handler_that_is_not_found_there_is_known_at_the_start() -> None:
    hidden = Registry()

    @hidden.job("HIDDEN", isolation="process")
    def handler(job: JobContext) -> None: ...

    with pytest.raises(
        ConfigError, match="HIDDEN has isolation, but a process that imports the modules anew"
    ):
        async with open_processes(hidden, WorkerSettings()):
            pass
    hidden.modules = ("no_such_module",)
    with pytest.raises(ConfigError, match="no_such_module can't be imported"):
        async with open_processes(hidden, WorkerSettings()):
            pass


async def test_a_lifespan_that_fails_there_fails_the_start_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEDGER", "/no/such/folder/ledger")
    with pytest.raises(ProcessDied, match="could not get ready: FileNotFoundError"):
        async with open_processes(registry, WorkerSettings()):
            pass


def test_a_misspelt_isolation_is_refused_where_it_stands() -> None:
    with pytest.raises(ValueError, match="isolation 'thread' is neither"):
        Registry().job("X", isolation="thread")(lambda job: None)  # type: ignore[arg-type]


async def test_a_stop_ends_the_wait_for_the_first_process() -> None:
    stop = anyio.Event()
    stop.set()
    async with open_processes(registry, WorkerSettings(), stop=stop) as pool:
        assert (pool.idle, pool.pids) == (0, ())


async def test_each_process_is_told_of_when_it_is_ready_and_how_it_ended(ledger: Ledger) -> None:
    recorder, telemetry = Recorder(), Telemetry(strict=True)
    telemetry.subscribe(recorder)
    async with open_processes(registry, WorkerSettings(), telemetry=telemetry) as pool:
        (first,) = pool.pids
        os.kill(first, signal.SIGKILL)
        await recorder.seen(PROCESS_ENDED)
    (started,), (ended,) = recorder.of(PROCESS_STARTED), recorder.of(PROCESS_ENDED)
    assert started["process"] == ended["process"] == first
    assert str(ended["how"]).startswith("SIGKILL") and ended["jobs"] == 0
