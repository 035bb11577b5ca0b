"""What became of each job: nothing lost, nothing from nowhere, no run after the end, all counted right."""

from __future__ import annotations

from collections import Counter, defaultdict

from soak.evidence import TERMINAL, Evidence, Row
from soak.verdict import Verdict, Violation


def rows_by_job(evidence: Evidence) -> dict[str, list[Row]]:
    """All rows of each job."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in evidence.rows:
        found[row.job_id].append(row)
    return found


def nothing_lost(evidence: Evidence) -> Verdict:
    """Every committed enqueue is in exactly one terminal state; one whose commit had no reply may be nowhere."""
    rows = rows_by_job(evidence)
    wrong: list[Violation] = []
    counts: Counter[str] = Counter()
    for job in evidence.enqueued:
        found = rows.get(job.job_id, [])
        counts[job.fate] += 1
        if job.fate == "ROLLED_BACK" or (job.fate == "UNKNOWN" and not found):
            continue
        if len(found) != 1 or found[0].status not in TERMINAL:
            where = [f"{row.table} {row.status}" for row in found] or ["nowhere"]
            wrong.append(Violation(job_id=job.job_id, what=f"{job.job_type} is in {', '.join(where)}"))
    seen = {
        "committed": counts["COMMITTED"],
        "rolled back": counts["ROLLED_BACK"],
        "without a reply": counts["UNKNOWN"],
    }
    return Verdict(name="nothing_lost", seen=seen, violations=wrong)


def nothing_from_nowhere(evidence: Evidence) -> Verdict:
    """What a producer rolled back is nowhere and never ran; each job in the database is one that somebody enqueued."""
    rolled_back = {job.job_id for job in evidence.enqueued if job.fate == "ROLLED_BACK"}
    known = {job.job_id for job in evidence.enqueued}
    ran = {one.job_id for one in evidence.executions}
    wrong = [
        Violation(job_id=job_id, what="was rolled back, and ran") for job_id in sorted(rolled_back & ran)
    ]
    for row in evidence.rows:
        if row.job_id in rolled_back:
            wrong.append(Violation(job_id=row.job_id, what=f"was rolled back, and is in {row.table}"))
        elif row.job_id not in known and row.job_type != "soak.child":
            wrong.append(Violation(job_id=row.job_id, what=f"{row.job_type}, which nobody enqueued"))
    return Verdict(
        name="nothing_from_nowhere",
        seen={"rolled back": len(rolled_back), "rows": len(evidence.rows)},
        violations=wrong,
    )


def no_run_after_the_end(evidence: Evidence) -> Verdict:
    """No handler was called with a higher run than the one in which its job ended."""
    ended = {row.job_id: row for row in evidence.rows if row.status in TERMINAL}
    wrong = [
        Violation(job_id=job_id, what=f"ran as run {run.run_no}, and ended in run {ended[job_id].run_no}")
        for job_id, runs in evidence.runs().items()
        for run in runs
        if job_id in ended and run.run_no > ended[job_id].run_no and not _forgotten(evidence, run.began)
    ]
    return Verdict(
        name="no_run_after_the_end", seen={"executions": len(evidence.executions)}, violations=wrong
    )


def nothing_before_its_time(evidence: Evidence) -> Verdict:
    """No handler was called before its job was due, as it was enqueued; a requeue makes it due at once."""
    requeued = {one.job_id for one in evidence.requeued}
    wrong = [
        Violation(job_id=one.job_id, what=f"run {one.run_no} began too early")
        for one in evidence.executions
        if one.early and one.job_id not in requeued
    ]
    later = sum(one.job_type == "soak.later" for one in evidence.executions)
    return Verdict(name="nothing_before_its_time", seen={"delayed runs": later}, violations=wrong)


def _forgotten(evidence: Evidence, began: float) -> bool:
    """A crash just after it may have forgotten the claim, and its number with it."""
    return any(crash.began - 2.0 <= began <= crash.ended for crash in evidence.crashes())


def attempts_within_limits(evidence: Evidence) -> Verdict:
    """No row has more attempts than it may, none lost its owner more often, no handler failed more often."""
    wrong = [
        Violation(job_id=row.job_id, what=f"{row.attempts} attempts of {row.max_attempts}, lost {row.lost}")
        for row in evidence.rows
        if row.attempts > row.max_attempts or row.lost > evidence.lost_limit
    ]
    lives = Counter(one.job_id for one in evidence.requeued)
    most = {row.job_id: row.max_attempts for row in evidence.rows}
    for job_id, runs in evidence.runs().items():
        failed = sum(run.how == "FAILED" and run.error != "Snooze" for run in runs)
        # A failure that its owner could not write down comes back as a lost owner, or a crash forgets it.
        allowed = (most.get(job_id, 0) + evidence.lost_limit) * (1 + lives[job_id]) + len(evidence.crashes())
        if job_id in most and failed > allowed:
            wrong.append(Violation(job_id=job_id, what=f"failed {failed} times of {allowed}"))
    seen = {
        "rows": len(evidence.rows),
        "attempts": sum(row.attempts for row in evidence.rows),
        "owners lost": sum(row.lost for row in evidence.rows),
    }
    return Verdict(name="attempts_within_limits", seen=seen, violations=wrong)


def each_death_told_once(evidence: Evidence) -> Verdict:
    """Each death has one row in the outbox, folded into one alert; occurrences are as many as deaths."""
    deaths = Counter(row.job_id for row in evidence.rows if row.status == "DEAD")
    deaths.update(one.job_id for one in evidence.requeued if one.was == "DEAD" and one.sure)
    doubtful = {one.job_id for one in evidence.requeued if not one.sure}
    told = Counter(one.job_id for one in evidence.told)
    wrong = [
        Violation(job_id=job_id, what=f"died {deaths[job_id]} times, told {told[job_id]} times")
        for job_id in sorted(deaths.keys() | told.keys())
        if deaths[job_id] != told[job_id] and job_id not in doubtful
    ]
    wrong += [Violation(job_id=one.job_id, what="is in no alert") for one in evidence.told if not one.folded]
    if evidence.occurrences != len(evidence.told):
        wrong.append(Violation(what=f"{len(evidence.told)} deaths, {evidence.occurrences} occurrences"))
    seen = {"deaths": len(evidence.told), "occurrences": evidence.occurrences}
    return Verdict(name="each_death_told_once", seen=seen, violations=wrong)


def keys_released(evidence: Evidence) -> Verdict:
    """When every job has ended, no dedupe key is taken."""
    wrong = [Violation(what=f"the key {key} is still taken") for key in evidence.keys_left]
    deduped = sum(job.job_type == "soak.deduped" for job in evidence.enqueued)
    return Verdict(name="keys_released", seen={"jobs with a key": deduped}, violations=wrong)


def follow_ups_once(evidence: Evidence) -> Verdict:
    """A job that asked for a follow-up and is DONE has exactly one; one that is not DONE has none."""
    parents = {row.job_id: row.status for row in evidence.rows if row.job_type == "soak.parent"}
    children = Counter(row.parent for row in evidence.rows if row.job_type == "soak.child")
    wrong = [
        Violation(job_id=job_id, what=f"{status} with {children[job_id]} follow-ups")
        for job_id, status in parents.items()
        if children[job_id] != (1 if status == "DONE" else 0)
    ]
    return Verdict(name="follow_ups_once", seen={"jobs with a follow-up": len(parents)}, violations=wrong)
