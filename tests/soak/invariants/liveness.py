"""How the fleet does: rows without an owner, throughput after each fault, use when idle, processes that leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from soak.evidence import Evidence, Lifetime, Usage
from soak.plan import ANY, Plan
from soak.takeovers import takeovers
from soak.verdict import Verdict, Violation

MORE_MEGABYTES = 60.0
MORE_THREADS = 8
MORE_CONNECTIONS = 3
EMPTY = ("ready", "scheduled", "dedupe")
MOST_BYTES = 8 << 20


def nothing_runs_without_an_owner(evidence: Evidence, plan: Plan) -> Verdict:
    """A row of an owner that is silent or gone is taken back within lease, watch and reaper interval.

    Time in which the server was in trouble does not count: nobody could look, and a reaper then watches anew (I1).
    """
    longest = 0.0
    wrong = []
    for orphan in evidence.orphans:
        silent = orphan.silent - in_trouble(evidence, plan, since=orphan.at - orphan.silent, until=orphan.at)
        longest = max(longest, silent)
        if silent > plan.timing.taken_back + plan.margin:
            wrong.append(
                Violation(job_id=orphan.job_id, what=f"RUNNING {silent:.1f} s after its owner's last sign")
            )
    seen = {"rows of silent owners seen": len(evidence.orphans), "s at most": longest}
    return Verdict(name="nothing_runs_without_an_owner", seen=seen, violations=wrong)


def jobs_of_the_dead_run_again(evidence: Evidence, plan: Plan) -> Verdict:
    """What a killed daemon ran is run by another within lease, watch and reaper interval."""
    longest, seen, wrong = 0.0, 0, []
    for one in takeovers(evidence):
        if one.fault.kind != "kill":
            continue
        seconds = one.seconds - in_trouble(evidence, plan, since=one.fault.began, until=one.next.began)
        seen, longest = seen + 1, max(longest, seconds)
        if seconds > plan.timing.taken_back + plan.margin:
            what = f"killed with {one.lost.slot}, ran again after {seconds:.1f} s"
            wrong.append(Violation(job_id=one.lost.job_id, what=what))
    return Verdict(
        name="jobs_of_the_dead_run_again",
        seen={"jobs of killed daemons": seen, "s at most": longest},
        violations=wrong,
    )


def in_trouble(evidence: Evidence, plan: Plan, *, since: float, until: float) -> float:
    """Seconds of a span in which the server, or more than one daemon, was in trouble, and a watch after that."""
    spans = [
        (max(since, one.began), min(until, one.ended + plan.timing.watch))
        for one in evidence.faults
        if one.slot == ANY or not one.alone
    ]
    return sum(end - begin for begin, end in _merged(spans))


def _merged(spans: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    reached = float("-inf")
    for begin, end in sorted(spans):
        if end > max(begin, reached):
            yield max(begin, reached), end
            reached = end


def throughput_back(evidence: Evidence, plan: Plan) -> Verdict:
    """After each fault at least 95 % of what arrives is done again within the bound, by the same daemons."""
    wrong = [
        Violation(
            what=f"{one.kind} of {one.slot}: "
            + ("not back" if one.back is None else f"back after {one.back:.1f} s")
        )
        for one in evidence.faults
        if one.back is None or one.back > plan.bound
    ]
    backs = [one.back for one in evidence.faults if one.back is not None]
    seen = {"faults": len(evidence.faults), "s at most": max(backs, default=0.0)}
    return Verdict(name="throughput_back", seen=seen, violations=wrong)


def every_daemon_back(evidence: Evidence, plan: Plan) -> Verdict:
    """After each fault every daemon is live again, also one that was started anew: none is left hanging."""
    wrong = [
        Violation(what=f"{one.kind} of {one.slot}: not every daemon was live after {plan.whole:.1f} s")
        for one in evidence.faults
        if one.whole is None or one.whole > plan.whole
    ]
    wholes = [one.whole for one in evidence.faults if one.whole is not None]
    seen = {"faults": len(evidence.faults), "s at most": max(wholes, default=0.0)}
    return Verdict(name="every_daemon_back", seen=seen, violations=wrong)


def daemons_stay(evidence: Evidence, plan: Plan) -> Verdict:
    """No daemon leaves by itself, but one whose deaf handler would outlive the lease; each stop is in time."""
    wrong: list[Violation] = []
    explained: dict[str, int] = {}
    longest = 0.0
    bound = plan.timing.grace + plan.timing.interrupt + 5.0 + plan.margin
    for life in evidence.lifetimes:
        reason = _why_it_left(life)
        if reason is not None:
            explained[reason] = explained.get(reason, 0) + 1
        elif life.why == "left":
            words = " | ".join(life.last_words)
            wrong.append(
                Violation(what=f"{life.slot} ({life.pid}) left by itself with {life.exit_code}: {words}")
            )
        if life.why == "stopped":
            longest = max(longest, life.stop_seconds)
            if life.stop_seconds > bound:
                wrong.append(
                    Violation(what=f"{life.slot} ({life.pid}) took {life.stop_seconds:.1f} s to stop")
                )
    seen = {"processes": len(evidence.lifetimes), "s to stop at most": longest}
    return Verdict(name="daemons_stay", seen=seen, violations=wrong, explained=explained)


def _why_it_left(life: Lifetime) -> str | None:
    said = " ".join(life.last_words)
    if life.why == "left" and life.exit_code == 1 and "loop.stalled" in said and "soak.deaf" in said:
        return "ended for a handler that swallows its cancellation"
    return None


def back_to_idle(evidence: Evidence) -> Verdict:
    """When all is done, connections, memory, threads and tables are again what they were before, within a margin."""
    before, after = evidence.before, evidence.after
    if before is None or after is None:
        return Verdict(name="back_to_idle", seen={}, violations=[Violation(what="nobody looked")])
    wrong = [Violation(what=what) for what in _more_than_before(before, after)]
    wrong += [
        Violation(what=f"{table} still holds {after.table_rows[table]} rows")
        for table in EMPTY
        if after.table_rows.get(table)
    ]
    wrong += [
        Violation(what=f"{table} still takes {size} bytes")
        for table, size in after.table_bytes.items()
        if table in EMPTY and size > MOST_BYTES
    ]
    seen = {
        "connections": after.connections,
        "MB at most": max(after.megabytes.values(), default=0.0),
        "threads at most": max(after.threads.values(), default=0),
        "bytes in the hot table": after.table_bytes.get("ready", 0),
    }
    return Verdict(name="back_to_idle", seen=seen, violations=wrong)


def _more_than_before(before: Usage, after: Usage) -> Iterator[str]:
    if after.connections > before.connections + MORE_CONNECTIONS:
        yield f"{after.connections} connections, {before.connections} before"
    yield from _grown("MB", before.megabytes, after.megabytes, MORE_MEGABYTES)
    yield from _grown("threads", before.threads, after.threads, MORE_THREADS)


def _grown(
    what: str, before: Mapping[str, float], after: Mapping[str, float], margin: float
) -> Iterator[str]:
    for slot, amount in after.items():
        if amount > before.get(slot, amount) + margin:
            yield f"{slot} has {amount:,.0f} {what}, {before[slot]:,.0f} before"
