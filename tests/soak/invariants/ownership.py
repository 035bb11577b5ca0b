"""Who ran and wrote what: executions of one job that overlap, claims that ran twice, results by a former owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from soak.evidence import Evidence, Execution
from soak.invariants.fates import rows_by_job
from soak.verdict import Verdict, Violation

SHORT_SECONDS = (
    1.0  # types that run for less are claimed asynchronously, and a crash of the server may forget that
)
STEPS = 3  # of soak.steps
WAKING_SECONDS = 5.0  # how long a process that was stopped may take to learn that it has lost its jobs


def no_unexplained_overlap(evidence: Evidence) -> Verdict:
    """No two calls for one job overlap, but where the first owner could not know that it had lost it, or was deaf."""
    wrong: list[Violation] = []
    explained: Counter[str] = Counter()
    for first, second in _overlaps(evidence):
        reason = explanation(evidence, first, second)
        if reason is None:
            wrong.append(Violation(job_id=first.job_id, what=_shown(first, second)))
        else:
            explained[reason] += 1
    seen = {"executions": len(evidence.executions), "overlaps": len(wrong) + explained.total()}
    return Verdict(name="no_unexplained_overlap", seen=seen, violations=wrong, explained=explained)


def explanation(evidence: Evidence, first: Execution, second: Execution) -> str | None:
    """Why the first owner could not know, or None.

    Stopped: its process stood still before the second began, and the call ended soon after it went on. Crash: the
    server forgot the claim of a short job. Deaf: a handler had swallowed its cancellation before.
    """
    for fault in evidence.faults:
        stood_still = fault.kind in ("pause", "pause_briefly") and fault.slot == first.slot
        if (
            stood_still
            and fault.covers(first.began, second.began)
            and first.ended <= fault.ended + WAKING_SECONDS
        ):
            return "owner stood still"
    if first.deaf <= second.began:
        return "handler swallows its cancellation"
    for crash in evidence.crashes():
        if (
            first.ended - first.began < SHORT_SECONDS
            and crash.began - SHORT_SECONDS <= first.began <= crash.ended
        ):
            return "claim forgotten in a crash"
    return None


def _overlaps(evidence: Evidence) -> Iterator[tuple[Execution, Execution]]:
    for runs in evidence.runs().values():
        for number, first in enumerate(runs):
            yield from ((first, second) for second in runs[number + 1 :] if second.began < first.ended)


def _shown(first: Execution, second: Execution) -> str:
    return (
        f"{first.job_type} run {first.run_no} on {first.slot} [{first.began:.3f}, {first.ended:.3f}] {first.how}"
        f" overlaps run {second.run_no} on {second.slot} [{second.began:.3f}, {second.ended:.3f}] {second.how}"
    )


def no_claim_run_twice(evidence: Evidence) -> Verdict:
    """Run numbers of one job only grow, but where the server forgot a claim in a crash."""
    wrong: list[Violation] = []
    explained: Counter[str] = Counter()
    for job_id, runs in evidence.runs().items():
        for first, second in pairwise(runs):
            if second.run_no > first.run_no:
                continue
            if any(crash.covers(first.began - SHORT_SECONDS, second.began) for crash in evidence.crashes()):
                explained["claim forgotten in a crash"] += 1
            else:
                wrong.append(
                    Violation(
                        job_id=job_id, what=f"run {second.run_no} began after run {first.run_no} had begun"
                    )
                )
    seen = {"jobs that ran": len(evidence.runs())}
    return Verdict(name="no_claim_run_twice", seen=seen, violations=wrong, explained=explained)


def progress_of_the_last_run(evidence: Evidence) -> Verdict:
    """No progress is of a later run than the row; that of a DONE job with steps is of its last run, each step done."""
    seen = [row for row in evidence.rows if row.progress_run_no is not None]
    wrong = [
        Violation(
            job_id=row.job_id,
            what=f"run {row.run_no} shows run {row.progress_run_no}, {row.steps_done} of {STEPS} steps done",
        )
        for row in seen
        if (row.progress_run_no or 0) > row.run_no
        or (row.status == "DONE" and (row.progress_run_no, row.steps_done) != (row.run_no, STEPS))
    ]
    return Verdict(name="progress_of_the_last_run", seen={"jobs with progress": len(seen)}, violations=wrong)


def no_write_by_a_former_owner(evidence: Evidence) -> Verdict:
    """The result of each DONE job is that of its last claim, and of a call that came to its end."""
    ends = {(one.job_id, one.nonce): one for one in evidence.executions if one.how == "END"}
    wrong: list[Violation] = []
    done = [row for found in rows_by_job(evidence).values() for row in found if row.status == "DONE"]
    for row in done:
        author = ends.get((row.job_id, row.result_nonce or ""))
        if author is None:
            wrong.append(Violation(job_id=row.job_id, what=f"its result is of no call that ended: {row}"))
        elif not author.run_no == row.result_run_no == row.run_no:
            what = f"run {row.run_no} has the result of run {author.run_no}, by {author.slot}"
            wrong.append(Violation(job_id=row.job_id, what=what))
    return Verdict(name="no_write_by_a_former_owner", seen={"results": len(done)}, violations=wrong)
