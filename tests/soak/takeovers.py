"""How soon others ran the jobs of a daemon that was killed, stopped or cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from soak.evidence import Evidence, Execution, Fault

SUSPECT = 2  # owners lost
SILENCING = ("kill", "pause", "blackhole")


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A job that ran when the fault began, and began to run again `seconds` later."""

    fault: Fault
    lost: Execution
    next: Execution
    seconds: float


def takeovers(evidence: Evidence) -> Iterator[Takeover]:
    """Give those of all jobs but the requeued, and suspects, of which an instance runs one at a time."""
    left_out = {one.job_id for one in evidence.requeued}
    left_out |= {row.job_id for row in evidence.rows if row.lost >= SUSPECT}
    silent = [one for one in evidence.faults if one.kind in SILENCING]
    for job_id, runs in evidence.runs().items():
        if job_id in left_out:
            continue
        for lost, following in pairwise(runs):
            for fault in silent:
                if _hit(fault, lost) and following.began > fault.began:
                    seconds = following.began - fault.began
                    yield Takeover(fault=fault, lost=lost, next=following, seconds=seconds)


def _hit(fault: Fault, run: Execution) -> bool:
    """Whether the fault came upon it as it ran, and it never came to its end, or came to it too late."""
    return fault.slot == run.slot and run.began <= fault.began < run.ended and run.how != "FAILED"
