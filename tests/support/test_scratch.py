"""The folder of a session's server: gone with the session, and with the next one if the session was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.scratch import scratch_folder

CHILD = """
import sys
from support.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "data").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_is_gone_at_the_end() -> None:
    with scratch_folder() as folder:
        (folder / "data").mkdir()

    assert not folder.exists()


def test_what_a_killed_session_left_goes_with_the_next_and_a_running_ones_stays() -> None:
    with scratch_folder() as ours:
        killed, running = _session(), _session()
        left, in_use = _folder_of(killed), _folder_of(running)
        killed.kill()
        killed.communicate()

        with scratch_folder():
            assert [left.exists(), in_use.exists(), ours.exists()] == [False, True, True]

        running.communicate()


def _session() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )


def _folder_of(session: subprocess.Popen[str]) -> Path:
    assert session.stdout is not None
    return Path(session.stdout.readline().strip())
