"""The ledger: a file outside of the database that says who ran what when, and a judge of what overlaps and why.

One JSON line an event. Handlers write START, STEP, END, CANCELLED (or FAILED, or DEAF for a cancellation that they
swallow); the test writes what it does to daemons (KILLED, PAUSED, RESUMED, CUT, HEALED) and to the server (CRASHED).
Invariant: a line is one write to a file opened for appending, so that lines of many processes never mix and none is
lost with its writer. Times are of CLOCK_MONOTONIC, which all processes of a machine share, whatever their wall clocks
say. A tag names one life of one daemon: who is started again gets a new one.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

PATH, TAG = "LEDGER", "LEDGER_TAG"
ENDS = ("END", "CANCELLED", "FAILED")
SILENT = {"PAUSED": "RESUMED", "CUT": "HEALED"}
UNEXPLAINED = "unexplained"
BEATS = 3  # a daemon does not start where its lease is shorter than so many beats

Line = dict[str, object]


def append(path: Path, what: str, **fields: object) -> None:
    """Write one line."""
    line = {"what": what, "at": time.clock_gettime(time.CLOCK_MONOTONIC), **fields}
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger as the test sees it."""

    path: Path

    def note(self, what: str, **fields: object) -> None:
        """Write what the test does, such as KILLED with the daemon's tag."""
        append(self.path, what, **fields)

    def lines(self, *what: str, **fields: object) -> list[Line]:
        """Give the lines of these kinds (of all) with these fields; one that a full disk cut short is left out."""
        return [
            line
            for line in _read(self.path)
            if (not what or line["what"] in what)
            and all(line.get(key) == value for key, value in fields.items())
        ]

    def executions(self) -> list[Execution]:
        """Give every call of a handler, in the order in which they began."""
        return executions(self.lines())

    def overlaps(self, *, lease: float, notice: float = 5.0) -> list[Overlap]:
        """Give the pairs of executions of one job that ran at one time, and why."""
        return overlaps(self.lines(), lease=lease, notice=notice)

    def unexplained(self, *, lease: float, notice: float = 5.0) -> list[Overlap]:
        """Give those that must not be."""
        return [one for one in self.overlaps(lease=lease, notice=notice) if one.why == UNEXPLAINED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One call of a handler. `how`: END, CANCELLED, FAILED, KILLED with its process, or OPEN. `deaf`: since when."""

    job_id: str
    run_no: int
    tag: str
    pid: int
    began: float
    ended: float
    how: str
    deaf: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """`second` began while `first` ran. `why`:

    "silent": the first owner was paused or cut off for at least a lease, and ended soon after it could know better;
    "deaf": its handler had been asked to stop before, and would not; "forgotten": the server had crashed in between,
    and may have forgotten a claim that it was not asked to keep; "unexplained": none of these.
    """

    first: Execution
    second: Execution
    why: str


def executions(lines: Sequence[Line]) -> list[Execution]:
    """One execution a START, in the order in which they began."""
    found = [
        _execution(line, lines[number + 1 :]) for number, line in enumerate(lines) if line["what"] == "START"
    ]
    return sorted(found, key=lambda one: one.began)


def overlaps(lines: Sequence[Line], *, lease: float, notice: float = 5.0) -> list[Overlap]:
    """Judge. `lease`: seconds without a beat after which an owner may be taken for dead.

    `notice`: seconds that an owner may take to learn that it has lost a job, once it is heard again.
    """
    periods, crashes = list(_silences(lines)), [at_of(line) for line in lines if line["what"] == "CRASHED"]
    return [
        Overlap(
            first=first, second=second, why=_why(first, second, periods, crashes, lease=lease, notice=notice)
        )
        for first, second in combinations(executions(lines), 2)
        if first.job_id == second.job_id and second.began < first.ended
    ]


def at_of(line: Line) -> float:
    """When it was written: seconds of the monotonic clock."""
    return float(str(line["at"]))


@dataclass(frozen=True, slots=True)
class _Silence:
    tag: str
    began: float
    ended: float


def _why(
    first: Execution,
    second: Execution,
    silences: Iterable[_Silence],
    crashes: Iterable[float],
    *,
    lease: float,
    notice: float,
) -> str:
    if first.deaf <= second.began:
        return "deaf"
    lapse = lease - lease / BEATS  # the last beat may lie up to one beat before the silence
    for silence in silences:
        lost = (
            silence.tag == first.tag
            and first.ended >= silence.began
            and second.began - silence.began >= lapse
        )
        if lost and silence.ended - silence.began >= lapse and first.ended <= silence.ended + notice:
            return "silent"
    if any(first.began <= at <= second.began for at in crashes):
        return "forgotten"
    return UNEXPLAINED


def _execution(start: Line, later: Sequence[Line]) -> Execution:
    of_it = [
        line for line in later if all(line.get(key) == start.get(key) for key in ("job_id", "run_no", "tag"))
    ]
    own = [line for line in of_it if line.get("pid") == start["pid"]]
    end = next((line for line in own if line["what"] in ENDS), None)
    killed = next((one for one in later if one["what"] == "KILLED" and one.get("tag") == start["tag"]), None)
    last = end or killed
    return Execution(
        job_id=str(start["job_id"]),
        run_no=int(str(start["run_no"])),
        tag=str(start["tag"]),
        pid=int(str(start["pid"])),
        began=at_of(start),
        ended=math.inf if last is None else at_of(last),
        how="OPEN" if last is None else str(last["what"]),
        deaf=min((at_of(line) for line in own if line["what"] == "DEAF"), default=math.inf),
    )


def _silences(lines: Sequence[Line]) -> Iterator[_Silence]:
    for number, line in enumerate(lines):
        if (over := SILENT.get(str(line["what"]))) is not None:
            tag = str(line["tag"])
            ends = (at_of(one) for one in lines[number:] if one["what"] == over and one.get("tag") == tag)
            yield _Silence(tag, at_of(line), next(ends, math.inf))


def _read(path: Path) -> Iterator[Line]:
    if not path.exists():
        return
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        yield line
