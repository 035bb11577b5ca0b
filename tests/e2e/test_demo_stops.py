"""How a demo ends: a signal at any moment, a death, a reader that goes away, kill -9; and who may start beside it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from anyio import to_thread

from support.demos import demo_command, end, environment, left_by, processes_of, run_demo, running_demo
from support.eventually import eventually
from support.process import Daemon
from support.scratch import scratch_folder
from support.websites import website
from wakeful.embedded import running_server

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """One data folder for all of this module, since making a cluster takes a second."""
    with scratch_folder() as folder:
        yield folder / "demo"


def wait_until_busy(demo: Daemon) -> dict[str, object]:
    """Wait until a place is being visited whose menu never answers: that takes two seconds."""
    demo.wait_for("demo.ready")
    return demo.wait_for("step", subject="crooked-teapot", step="visit", step_status="running", timeout=40)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_running_jobs_finish_and_leaves_nothing(data: Path, signum: signal.Signals) -> None:
    with running_demo("--every", "0.5s", data=data) as demo:
        busy = wait_until_busy(demo)
        demo.send(signum)
        assert demo.exit_code() == 0
        ready = demo.events("demo.ready")[0]
        assert demo.events("step", job_id=busy["job_id"], step="visit", step_status="done")
        assert demo.events("demo.ended")
    assert left_by(data, ready) == []


def test_a_signal_during_the_set_up_ends_it_too(data: Path) -> None:
    with running_demo(data=data) as demo:
        demo.wait_for("demo.starting")
        demo.send(signal.SIGINT)
        assert demo.exit_code() == 0
        assert not demo.events("job.enqueued")
    assert not (data / "owner").exists()
    assert processes_of(data) == []


def test_a_second_demo_on_the_folder_says_who_holds_it(data: Path) -> None:
    with running_demo(data=data) as demo:
        demo.wait_for("demo.ready")
        second = run_demo("--once", data=data)
        assert second.code == 1
        assert f"in use by process {demo.pid}" in second.err
        assert "--data FOLDER" in second.err
        demo.send(signal.SIGTERM)
        assert demo.exit_code() == 0


async def test_after_a_kill_no_server_is_left_and_the_next_run_finishes_the_jobs(data: Path) -> None:
    with running_demo("--every", "0.5s", data=data) as demo:
        busy = wait_until_busy(demo)
        ready = demo.events("demo.ready")[0]
        demo.send(signal.SIGKILL)
        demo.exit_code()

    async def nothing_runs() -> bool:
        return processes_of(data) == []

    await eventually(nothing_runs)
    assert [left for left in left_by(data, ready) if not left.endswith("/owner")] == []

    following = run_demo("--once", "--json", data=data)
    assert following.code == 0, following.out + following.err
    assert following.events("jobs.taken_up")
    assert following.events("jobs.rescued")
    # A newer run of the same place may be published first: then the older one gives way.
    (ended,) = following.events("pipeline.ended", run=busy["job_id"])
    assert ended["status"] in {"DONE", "CANCELLED"}
    async with running_server(data) as server:
        connection = await asyncpg.connect(server.dsn)
        row = await connection.fetchrow(
            "select * from wakeful.jobs where job_id = $1::text::uuid", busy["job_id"]
        )
        await connection.close()
    assert row is not None
    assert (row["attempts"], row["run_no"], row["lost"]) == (1, 2, 1)
    assert "lease-expired reclaim" in row["last_error"]


async def test_a_pipeline_that_dies_is_named_and_makes_the_exit_code_1(data: Path) -> None:
    async with website({}) as bare:
        site = f"http://127.0.0.1:{bare.port}/"
        ended = await to_thread.run_sync(lambda: run_demo("--once", "--json", "--site", site, data=data))
    assert ended.code == 1
    (died,) = ended.events("pipeline.ended", place="127-0-0-1")
    assert died["status"] == "DEAD"
    assert ended.events("alert.told", job_type="COLLECT")
    assert ended.told[-1]["reason"] == "died, and should not have: 127-0-0-1"


def test_a_reader_that_goes_away_is_no_failure(data: Path) -> None:
    process = subprocess.Popen(
        demo_command("--every", "0.5s", data=data),
        env=environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        while "enqueued" not in process.stdout.readline():
            pass
        process.stdout.close()
        errors = process.stderr.read()
        assert (process.wait(30), errors) == (0, "")
    finally:
        end(process)
        process.stderr.close()
    assert processes_of(data) == []
    assert not (data / "owner").exists()
    last = json.loads((data / "daemon.log").read_text().splitlines()[-1])
    assert (last["event"], last["exit_code"]) == ("daemon.stopped", 0)


def test_in_a_terminal_it_shows_steps_live_and_ends_with_ctrl_c(data: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, 100))
    process = subprocess.Popen(
        demo_command("--every", "0.5s", data=data),
        env=environment({"TERM": "xterm"}),
        cwd="/",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - makes it the session's terminal
    )
    os.close(theirs)
    try:
        shown = _read_until(ours, "COLLECT ✓")
        assert "\x1b[J" in shown
        assert "\x1b[32m" in shown
        assert "Ctrl-C stops" in shown
        assert f"Ctrl-C (or kill {process.pid})" in shown
        os.write(ours, b"\x03")
        shown += _read_until(ours, "Nothing runs any more")
        assert process.wait(30) == 0
    finally:
        end(process)
        os.close(ours)
    assert "stopping" in ESCAPES.sub("", shown)
    assert processes_of(data) == []


def _read_until(terminal: int, wanted: str) -> str:
    """Read what is shown until a text was; the test's own time limit ends a wait in vain."""
    shown = ""
    while wanted not in ESCAPES.sub("", shown):
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            raise AssertionError(f"{wanted!r} was never shown:\n{shown}") from None
    return shown
