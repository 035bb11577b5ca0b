"""How the process of Apprise ends, whatever a plugin does: with its children, and also without its daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from support.messages import delivery
from support.vendors import outcome, sink_of, tried
from wakeful.outbox.sinks import apprise_process
from wakeful.outbox.sinks.apprise import AppriseSink

# A plugin's child that ignores what asks it to end; the file bears its id.
WITH_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen(["sh", "-c", "trap '' TERM HUP INT; sleep 600 & wait"])
open(sys.argv[0] + ".child", "w").write(str(child.pid))
ENDING
"""
HANGING = "class Apprise:\n    def __init__(self):\n        import time\n        time.sleep(600)\n"


def is_over(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has asked for its end yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def over(pid: int) -> None:
    with anyio.fail_after(30):
        while not is_over(pid):
            await anyio.sleep(0.01)


def sink_with(program: Path, *, timeout: float) -> AppriseSink:
    sink = sink_of("apprise", "json://127.0.0.1/", timeout=timeout)
    assert isinstance(sink, AppriseSink)
    return replace(sink, program=program)


@pytest.mark.parametrize("ending", ["time.sleep(600)", "sys.exit(10)", "import os; os.abort()"])
async def test_the_children_of_a_plugin_end_with_it(tmp_path: Path, ending: str) -> None:
    program = tmp_path / "plugin.py"
    program.write_text(WITH_A_CHILD.replace("ENDING", ending))
    named = tmp_path / "plugin.py.child"
    sink = sink_with(program, timeout=60)

    async with anyio.create_task_group() as group:
        group.start_soon(sink.send, delivery())
        with anyio.fail_after(30):
            while not (named.exists() and named.read_text()):
                await anyio.sleep(0.01)
        if "sleep" in ending:
            group.cancel_scope.cancel()

    await over(int(named.read_text()))


async def test_a_plugin_that_hangs_costs_the_time_of_one_try(tmp_path: Path) -> None:
    program = tmp_path / "plugin.py"
    program.write_text("import time; time.sleep(600)")

    assert outcome(await tried(sink_with(program, timeout=0.3))) == "retry"


def test_without_its_daemon_it_ends_by_itself_whatever_it_hangs_in(tmp_path: Path) -> None:
    (tmp_path / "apprise.py").write_text(HANGING)
    told = {
        "urls": ["json://127.0.0.1/"],
        "title": "t",
        "body": "b",
        "seconds": 1 - apprise_process.GRACE_SECONDS,
    }

    ended = subprocess.run(
        [sys.executable, "-P", apprise_process.__file__],
        input=json.dumps(told).encode(),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
        check=False,
    )

    assert ended.returncode == -signal.SIGALRM
