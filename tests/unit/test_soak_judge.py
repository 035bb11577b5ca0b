"""The soak's judge can fail: each invariant holds on sound evidence, and breaks on evidence that was doctored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from soak.evidence import (
    Enqueued,
    Evidence,
    Execution,
    Fault,
    Lifetime,
    Orphan,
    Requeued,
    Row,
    Told,
    Usage,
)
from soak.invariants import ownership
from soak.judge import judge
from soak.plan import SHORT

PLAN = SHORT
BOUND = PLAN.timing.taken_back + PLAN.margin


def execution(job_id: str = "a", *, run_no: int = 1, began: float = 10.0, ended: float = 11.0) -> Execution:
    return Execution(
        job_id=job_id,
        job_type="soak.long",
        run_no=run_no,
        nonce=f"{job_id}{run_no}",
        slot=f"d{run_no}",
        pid=run_no,
        began=began,
        ended=ended,
        how="END",
    )


def row(job_id: str = "a", *, run_no: int = 1, status: str = "DONE", job_type: str = "soak.long") -> Row:
    return Row(
        job_id=job_id,
        job_type=job_type,
        table="dead" if status == "DEAD" else "finished",
        status=status,
        attempts=1,
        max_attempts=5,
        run_no=run_no,
        result_run_no=run_no if status == "DONE" else None,
        result_nonce=f"{job_id}{run_no}" if status == "DONE" else None,
    )


def enqueued(job_id: str, fate: str = "COMMITTED") -> Enqueued:
    return Enqueued(job_id=job_id, job_type="soak.long", fate=fate, at=1.0)


def fault(kind: str = "kill", *, slot: str = "d1", began: float = 20.0, ended: float = 21.0) -> Fault:
    return Fault(kind=kind, slot=slot, began=began, ended=ended, back=0.5, whole=0.5)


def used(**more: int) -> Usage:
    return Usage(
        connections=18 + more.get("connections", 0),
        megabytes={"d1": 60.0 + more.get("megabytes", 0)},
        threads={"d1": 5 + more.get("threads", 0)},
        table_bytes={"ready": 16384 + more.get("bytes", 0), "dead": 1 << 30},
        table_rows={"ready": more.get("rows", 0), "dead": 1000},
    )


def lifetime(**changes: object) -> Lifetime:
    sound = Lifetime(slot="d1", pid=1, began=0.0, ended=50.0, why="stopped", exit_code=0, stop_seconds=1.0)
    return replace(sound, **changes)  # type: ignore[arg-type]


SOUND = Evidence(
    executions=[execution("a"), execution("b", began=12.0), execution("p"), execution("c")],
    enqueued=[
        enqueued("a"),
        enqueued("b"),
        enqueued("p"),
        enqueued("x", "ROLLED_BACK"),
        enqueued("y", "UNKNOWN"),
    ],
    rows=[
        row("a"),
        row("b", status="DEAD"),
        row("p", job_type="soak.parent"),
        replace(row("c", job_type="soak.child"), parent="p"),
    ],
    told=[Told(job_id="b", folded=True)],
    occurrences=1,
    faults=[fault()],
    lifetimes=[lifetime(), lifetime(why="killed", exit_code=-9)],
    orphans=[Orphan(job_id="a", run_no=1, at=30.0, silent=PLAN.timing.lease)],
    before=used(),
    after=used(),
)


def with_rows(*rows: Row) -> Evidence:
    return replace(SOUND, rows=[*SOUND.rows[1:], *rows], _runs={})


def with_runs(*executions: Execution, faults: tuple[Fault, ...] = ()) -> Evidence:
    """The job `a`, DONE, with these runs."""
    last = executions[-1]
    done = replace(row("a", run_no=last.run_no), result_nonce=last.nonce)
    return replace(
        SOUND,
        executions=[*SOUND.executions[1:], *executions],
        rows=[done, *SOUND.rows[1:]],
        faults=[*SOUND.faults, *faults],
        _runs={},
    )


def broken(evidence: Evidence) -> set[str]:
    return {verdict.name for verdict in judge(evidence, PLAN) if not verdict.holds}


def test_on_sound_evidence_every_invariant_holds() -> None:
    verdicts = judge(SOUND, PLAN)
    assert [verdict.line() for verdict in verdicts if not verdict.holds] == []
    assert len({verdict.name for verdict in verdicts}) == len(verdicts) == 18


DOCTORED: dict[str, tuple[str, Callable[[], Evidence]]] = {
    "a committed job is nowhere": ("nothing_lost", with_rows),
    "a committed job still waits": (
        "nothing_lost",
        lambda: with_rows(replace(row("a", status="PENDING"), table="ready")),
    ),
    "a job is in two tables": ("nothing_lost", lambda: with_rows(row("a"), row("a"))),
    "a job without a reply to its commit still runs": (
        "nothing_lost",
        lambda: with_rows(row("a"), replace(row("y", status="RUNNING"), table="ready")),
    ),
    "what was rolled back has a row": ("nothing_from_nowhere", lambda: with_rows(row("a"), row("x"))),
    "what was rolled back ran": (
        "nothing_from_nowhere",
        lambda: replace(SOUND, executions=[*SOUND.executions, execution("x")], _runs={}),
    ),
    "a job that nobody enqueued": ("nothing_from_nowhere", lambda: with_rows(row("a"), row("z"))),
    "a run after the end": (
        "no_run_after_the_end",
        lambda: replace(
            SOUND, executions=[*SOUND.executions, execution("a", run_no=2, began=15.0, ended=16.0)], _runs={}
        ),
    ),
    "a run before its time": (
        "nothing_before_its_time",
        lambda: with_runs(replace(execution("a"), early=True)),
    ),
    "progress of a former run": (
        "progress_of_the_last_run",
        lambda: with_rows(replace(row("a", run_no=2), progress_run_no=1, steps_done=3)),
    ),
    "a step that is not done": (
        "progress_of_the_last_run",
        lambda: with_rows(replace(row("a"), progress_run_no=1, steps_done=2)),
    ),
    "too many attempts": ("attempts_within_limits", lambda: with_rows(replace(row("a"), attempts=6))),
    "lost its owner too often": ("attempts_within_limits", lambda: with_rows(replace(row("a"), lost=4))),
    "a handler failed too often": (
        "attempts_within_limits",
        lambda: with_runs(
            *(
                replace(execution("a", run_no=n, began=n, ended=n + 0.5), how="FAILED" if n < 10 else "END")
                for n in range(1, 11)
            )
        ),
    ),
    "a death that nobody was told of": (
        "each_death_told_once",
        lambda: replace(SOUND, told=[], occurrences=0),
    ),
    "a death told twice": (
        "each_death_told_once",
        lambda: replace(SOUND, told=[*SOUND.told, *SOUND.told], occurrences=2),
    ),
    "a death in no alert": (
        "each_death_told_once",
        lambda: replace(SOUND, told=[Told(job_id="b", folded=False)]),
    ),
    "an alert that counts too much": ("each_death_told_once", lambda: replace(SOUND, occurrences=2)),
    "one that died again after a requeue, told once": (
        "each_death_told_once",
        lambda: replace(SOUND, requeued=[Requeued(job_id="b", was="DEAD", sure=True, at=12.0)]),
    ),
    "a key that is still taken": ("keys_released", lambda: replace(SOUND, keys_left=["key 1"])),
    "a follow-up that is missing": (
        "follow_ups_once",
        lambda: replace(SOUND, rows=[one for one in SOUND.rows if one.parent is None]),
    ),
    "a follow-up twice": (
        "follow_ups_once",
        lambda: with_rows(row("a"), replace(row("c2", job_type="soak.child"), parent="p")),
    ),
    "two calls that overlap": (
        "no_unexplained_overlap",
        lambda: with_runs(execution("a", ended=15.0), execution("a", run_no=2, began=14.0, ended=16.0)),
    ),
    "a claim that ran twice": (
        "no_claim_run_twice",
        lambda: with_runs(execution("a"), execution("a", began=12.0, ended=13.0)),
    ),
    "a result of a former run": (
        "no_write_by_a_former_owner",
        lambda: replace(
            with_runs(execution("a"), execution("a", run_no=2, began=12.0, ended=13.0)),
            rows=[replace(row("a", run_no=2), result_run_no=1, result_nonce="a1"), *SOUND.rows[1:]],
        ),
    ),
    "a result of a call that did not end": (
        "no_write_by_a_former_owner",
        lambda: replace(
            SOUND, executions=[replace(SOUND.executions[0], how="KILLED"), *SOUND.executions[1:]], _runs={}
        ),
    ),
    "a row whose owner is long gone": (
        "nothing_runs_without_an_owner",
        lambda: replace(SOUND, orphans=[Orphan(job_id="a", run_no=1, at=60.0, silent=BOUND + 0.1)]),
    ),
    "a killed daemon's job that runs again late": (
        "jobs_of_the_dead_run_again",
        lambda: with_runs(
            replace(execution("a", began=19.0, ended=20.0), how="KILLED"),
            execution("a", run_no=2, began=20.1 + BOUND, ended=21.0 + BOUND),
            faults=(fault(began=19.9, ended=20.5),),
        ),
    ),
    "throughput that was late": (
        "throughput_back",
        lambda: replace(SOUND, faults=[replace(fault(), back=PLAN.bound + 1)]),
    ),
    "throughput that was not seen coming back": (
        "throughput_back",
        lambda: replace(SOUND, faults=[replace(fault(), back=None)]),
    ),
    "a daemon that was left hanging": (
        "every_daemon_back",
        lambda: replace(SOUND, faults=[replace(fault(), whole=None)]),
    ),
    "a daemon that left by itself": (
        "daemons_stay",
        lambda: replace(SOUND, lifetimes=[lifetime(why="left", exit_code=1, last_words=["daemon.crashed"])]),
    ),
    "a daemon that took long to stop": (
        "daemons_stay",
        lambda: replace(SOUND, lifetimes=[lifetime(stop_seconds=100.0)]),
    ),
    "connections left behind": ("back_to_idle", lambda: replace(SOUND, after=used(connections=10))),
    "memory that grew": ("back_to_idle", lambda: replace(SOUND, after=used(megabytes=200))),
    "threads left behind": ("back_to_idle", lambda: replace(SOUND, after=used(threads=20))),
    "rows left in the hot table": ("back_to_idle", lambda: replace(SOUND, after=used(rows=1))),
    "a hot table that stayed large": ("back_to_idle", lambda: replace(SOUND, after=used(bytes=64 << 20))),
}


@pytest.mark.parametrize(("invariant", "doctor"), DOCTORED.values(), ids=DOCTORED)
def test_doctored_evidence_breaks_the_invariant_that_it_is_about(
    invariant: str, doctor: Callable[[], Evidence]
) -> None:
    assert invariant in broken(doctor())


OVERLAPPING = (execution("a", ended=18.0), execution("a", run_no=2, began=14.0, ended=16.0))


@pytest.mark.parametrize(
    ("excuse", "reason"),
    [
        (fault("pause", slot="d1", began=11.0, ended=17.5), "owner stood still"),
        (fault("pause", slot="d2", began=11.0, ended=17.5), None),
        (fault("pause", slot="d1", began=1.0, ended=2.0), None),
        (fault("pause", slot="d1", began=14.5, ended=17.5), None),
        (fault("pause", slot="d1", began=11.0, ended=12.0), None),
        (fault("blackhole", slot="d1", began=11.0, ended=17.5), None),
        (fault("server_crash", slot="server", began=10.5, ended=11.0), None),
    ],
    ids=[
        "stopped",
        "another stopped",
        "long before",
        "afterwards",
        "ran on for long",
        "cut off",
        "long job, crash",
    ],
)
def test_an_overlap_is_explained_only_by_an_owner_that_could_not_know(
    excuse: Fault, reason: str | None
) -> None:
    evidence = with_runs(*OVERLAPPING, faults=(excuse,))
    verdict = ownership.no_unexplained_overlap(evidence)
    assert list(verdict.explained) == ([] if reason is None else [reason])
    assert verdict.holds is (reason is not None)


def test_a_short_job_whose_claim_was_forgotten_in_a_crash_may_overlap_and_run_again_with_its_number() -> None:
    first, second = execution("a", began=10.0, ended=10.2), execution("a", began=10.1, ended=10.3)
    evidence = with_runs(first, replace(second, nonce="again"), faults=(fault("server_crash", began=10.05),))
    assert broken(evidence) == set()


def test_time_in_which_the_server_was_away_is_not_counted_against_the_reapers() -> None:
    orphan = Orphan(job_id="a", run_no=1, at=60.0, silent=BOUND + 5.0)
    away = fault("server_restart", slot="server", began=50.0, ended=56.0)
    assert broken(replace(SOUND, orphans=[orphan], faults=[away])) == set()
    assert broken(replace(SOUND, orphans=[orphan], faults=[])) == {"nothing_runs_without_an_owner"}


def test_a_daemon_may_end_itself_for_a_deaf_handler_only() -> None:
    left = lifetime(
        why="left", exit_code=1, last_words=['{"event": "loop.stalled", "jobs": ["soak.deaf 1"]}']
    )
    assert broken(replace(SOUND, lifetimes=[left])) == set()
    assert broken(replace(SOUND, lifetimes=[replace(left, exit_code=2)])) == {"daemons_stay"}
