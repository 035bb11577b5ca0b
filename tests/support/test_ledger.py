"""The judge of the fault tests: what it lets pass, and what it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.ledger import Ledger, Line, executions, overlaps

LEASE = 3.0
TESTS = Path(__file__).resolve().parents[1]
WRITER = """
import sys
from pathlib import Path
from support.ledger import append
for number in range(200):
    append(Path(sys.argv[1]), "STEP", number=number, text="x" * 500)
"""


def line(what: str, at: float, tag: str = "first", **fields: object) -> Line:
    return {"what": what, "at": at, "tag": tag, "pid": len(tag), "job_id": "job", "run_no": 1, **fields}


def second(what: str, at: float) -> Line:
    return line(what, at, "second", run_no=2)


def judged(*lines: Line) -> list[str]:
    return [one.why for one in overlaps(lines, lease=LEASE)]


def test_one_after_the_other_is_no_overlap() -> None:
    assert judged(line("START", 0), line("END", 1), second("START", 1.1), second("END", 2)) == []


def test_a_handler_ends_with_its_process() -> None:
    lines = (line("START", 0), line("KILLED", 1), second("START", 5), second("END", 6))
    assert judged(*lines) == []
    assert [one.how for one in executions(lines)] == ["KILLED", "END"]


def test_two_at_one_time_are_unexplained() -> None:
    assert judged(line("START", 0), second("START", 1), line("END", 2), second("END", 3)) == ["unexplained"]


def test_one_that_never_ended_overlaps_whatever_follows() -> None:
    assert judged(line("START", 0), second("START", 100)) == ["unexplained"]


@pytest.mark.parametrize(("begins", "ends"), [("PAUSED", "RESUMED"), ("CUT", "HEALED")])
def test_an_owner_that_was_silent_for_a_lease_could_not_know(begins: str, ends: str) -> None:
    lines = (line("START", 0), line(begins, 1), second("START", 5), line(ends, 6))
    assert judged(*lines, line("CANCELLED", 7)) == ["silent"]
    assert judged(*lines, line("CANCELLED", 60)) == ["unexplained"], (
        "it went on long after it was heard again"
    )


def test_a_short_silence_or_one_of_another_explains_nothing() -> None:
    short = (line("START", 0), line("PAUSED", 1), line("RESUMED", 2), second("START", 5))
    other = (line("START", 0), line("PAUSED", 1, "third"), second("START", 5), line("RESUMED", 6, "third"))
    early = (line("START", 0), line("PAUSED", 1), second("START", 2), line("RESUMED", 6))
    for lines in (short, other, early):
        assert judged(*lines, line("CANCELLED", 7)) == ["unexplained"]


def test_one_that_was_asked_to_stop_before_is_deaf() -> None:
    before = (line("START", 0), line("DEAF", 1), second("START", 2), line("END", 3))
    after = (line("START", 0), second("START", 1), line("DEAF", 2), line("END", 3))
    assert (judged(*before), judged(*after)) == (["deaf"], ["unexplained"])


def test_a_crash_of_the_server_may_forget_a_claim() -> None:
    assert judged(line("START", 0), line("CRASHED", 1), second("START", 2), line("END", 3)) == ["forgotten"]


def test_a_copy_of_a_forked_process_is_no_end_of_its_own() -> None:
    lines = (line("START", 0), line("END", 1, pid=99), second("START", 2), line("END", 3))
    assert judged(*lines) == ["unexplained"]


def test_lines_of_many_processes_never_mix_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, ledger.path], env={"PYTHONPATH": str(TESTS)})
        for _ in range(4)
    ]
    assert [writer.wait(30) for writer in writers] == [0] * 4
    with ledger.path.open("a") as file:
        file.write('{"what": "STEP", "pi')
    assert len(ledger.lines("STEP")) == 800
    assert all(json.loads(text) for text in ledger.path.read_text().splitlines()[:-1])
