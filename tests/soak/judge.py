"""The judge: every invariant on the same evidence."""

from __future__ import annotations

from collections.abc import Sequence

from soak.evidence import Evidence
from soak.invariants import fates, liveness, ownership
from soak.plan import Plan
from soak.verdict import Verdict


def judge(evidence: Evidence, plan: Plan) -> Sequence[Verdict]:
    """Give one verdict an invariant."""
    return (
        fates.nothing_lost(evidence),
        fates.nothing_from_nowhere(evidence),
        fates.no_run_after_the_end(evidence),
        fates.nothing_before_its_time(evidence),
        fates.attempts_within_limits(evidence),
        fates.each_death_told_once(evidence),
        fates.keys_released(evidence),
        fates.follow_ups_once(evidence),
        ownership.no_unexplained_overlap(evidence),
        ownership.no_claim_run_twice(evidence),
        ownership.no_write_by_a_former_owner(evidence),
        ownership.progress_of_the_last_run(evidence),
        liveness.nothing_runs_without_an_owner(evidence, plan),
        liveness.jobs_of_the_dead_run_again(evidence, plan),
        liveness.throughput_back(evidence, plan),
        liveness.every_daemon_back(evidence, plan),
        liveness.daemons_stay(evidence, plan),
        liveness.back_to_idle(evidence),
    )
