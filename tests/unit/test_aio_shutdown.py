"""Stop signals, with real ones in real processes: one, two and three of them, on both event loops."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from wakeful.aio.shutdown import Shutdown, watch_signals
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import STOP_HURRIED, STOP_REQUESTED
from wakeful.telemetry.recorder import Recorder

LOOPS = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]  # the second one is optional
PROGRAM = textwrap.dedent(
    """
    import asyncio, importlib, signal, sys, time
    import anyio
    from wakeful.aio.shutdown import Shutdown, hold_signals, watch_signals
    from wakeful.telemetry.bus import Telemetry

    loop, mode = sys.argv[1:]

    def say(word):
        print(word, flush=True)

    def take():
        loop = asyncio.get_running_loop()
        if mode == "ignoring":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif mode == "removing":
            loop.remove_signal_handler(signal.SIGTERM)
        elif mode == "deafening":
            signal.set_wakeup_fd(-1)
            say("taken")

    def heard(event, fields):
        if event.name == "signals.retaken":
            say("retaken " + " ".join(fields["signals"]))

    async def main():
        shutdown, telemetry = Shutdown(), Telemetry()
        telemetry.subscribe(heard)
        async with anyio.create_task_group() as group:
            await group.start(watch_signals, shutdown, telemetry)
            say("ready")
            take()
            if mode == "blocked":
                while True:
                    time.sleep(60)
            await shutdown.requested.wait()
            say("requested")
            if mode == "stubborn":
                await shutdown.hurried.wait()
                say("hurried")
                await anyio.sleep_forever()
            group.cancel_scope.cancel()

    if mode == "obedient":
        hold_signals()
        say("starting")
        sys.stdin.readline()
    factory = importlib.import_module(loop).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    say(f"end {signal.getsignal(signal.SIGTERM) is signal.SIG_DFL}")
    """
)


@pytest.mark.parametrize("loop", LOOPS)
def test_one_asks_two_hurry_three_end_the_process_with_1(loop: str) -> None:
    with _program(loop, "stubborn") as process:
        assert _line(process) == "ready"
        process.send_signal(signal.SIGTERM)
        assert _line(process) == "requested"
        process.send_signal(signal.SIGINT)
        assert _line(process) == "hurried"
        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == 1
        assert "third stop signal" in _errors(process)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_third_signal_ends_even_a_process_whose_loop_is_blocked(loop: str) -> None:
    with _program(loop, "blocked") as process:
        assert _line(process) == "ready"

        code = None
        for _ in range(100):  # equal signals that are pending together are one for the kernel
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(0.1)
                break
            except subprocess.TimeoutExpired:
                continue

        assert code == 1


@pytest.mark.parametrize("loop", LOOPS)
def test_a_signal_during_the_start_is_not_lost_and_not_deadly(loop: str) -> None:
    with _program(loop, "obedient") as process:
        assert _line(process) == "starting"
        process.send_signal(signal.SIGTERM)
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()

        assert [_line(process) for _ in range(3)] == ["ready", "requested", "end True"]
        assert process.wait(10) == 0


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mode", ["ignoring", "removing", "deafening"])
def test_code_that_takes_the_signals_for_itself_stops_no_stop(loop: str, mode: str) -> None:
    with _program(loop, mode) as process:
        assert _line(process) == "ready"
        assert _line(process) == ("taken" if mode == "deafening" else "retaken SIGTERM")
        process.send_signal(signal.SIGTERM)

        assert [_line(process) for _ in range(2)] == ["requested", "end True"]
        assert process.wait(10) == 0


async def test_signals_become_events_and_nothing_is_left_behind() -> None:
    recorder, telemetry, shutdown = Recorder(), Telemetry(strict=True), Shutdown()
    telemetry.subscribe(recorder)
    before = signal.getsignal(signal.SIGTERM)

    async with anyio.create_task_group() as group:
        await group.start(watch_signals, shutdown, telemetry)
        os.kill(os.getpid(), signal.SIGTERM)
        await recorder.seen(STOP_REQUESTED, signal="SIGTERM")
        assert shutdown.requested.is_set() and not shutdown.hurried.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        await recorder.seen(STOP_HURRIED, signal="SIGINT")
        assert shutdown.hurried.is_set()
        group.cancel_scope.cancel()

    assert signal.getsignal(signal.SIGTERM) is before


def test_hurrying_implies_asking_and_asking_twice_changes_nothing() -> None:
    shutdown = Shutdown()
    shutdown.request()
    shutdown.request()
    assert shutdown.requested.is_set() and not shutdown.hurried.is_set()

    hurried = Shutdown()
    hurried.hurry()
    assert hurried.requested.is_set() and hurried.hurried.is_set()


@contextmanager
def _program(loop: str, mode: str) -> Iterator[subprocess.Popen[str]]:
    pipes = subprocess.PIPE
    command = [sys.executable, "-c", PROGRAM, loop, mode]
    with subprocess.Popen(command, stdin=pipes, stdout=pipes, stderr=pipes, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _errors(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()
