"""Writing conclusions: batched by lane, fenced by token, never waiting for a row, never stopped by one bad value.

Invariant: after `flush` each conclusion has landed, is lost, is unknown, or is given back to be tried again; nothing is
concluded from a missing row alone, the verdicts of a later statement are (R3, I3). A value that PostgreSQL refuses is
split out of its batch, and replaced by one that always stores.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from wakeful.core import backoff, jsontext
from wakeful.core.outcome import Done, ErrorEntry, Failed, FollowUp
from wakeful.errors import DataRefused, OptionRefused, StoreBusy
from wakeful.runtime.conclusion import DONE, Conclusion, Landing
from wakeful.runtime.holdings import identity_of
from wakeful.store import jobs as store
from wakeful.store.database import Database, Transaction
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import FLUSH_SPLIT, JOB_DEDUPLICATED, RESULT_REPLACED

LOCK_SECONDS: Final = 0.2
SHORTEST_LOCK_SECONDS: Final = 0.01

# By claim: a job that was lost and claimed again may end twice in one batch.
Landings = dict[tuple[UUID, int], Landing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushing:
    """What a flush needs besides the conclusions."""

    database: Database
    telemetry: Telemetry
    lost_limit: int


@dataclass(slots=True, kw_only=True)
class Flushed:
    """The answer of a flush: what is settled, and what is to be tried again."""

    settled: list[tuple[Conclusion, Landing]]
    again: list[Conclusion]


async def flush(flushing: Flushing, batch: Sequence[Conclusion]) -> Flushed:
    """Write a batch. Raises StoreUnavailable: nothing is known then, and the whole batch is to be tried again."""
    landings = await _write(flushing, batch)
    if len(landings) == len(batch):
        return Flushed(settled=[(one, landings[one.holding.key]) for one in batch], again=[])
    missing = [one for one in batch if one.holding.key not in landings]
    settled = [(one, landings[one.holding.key]) for one in batch if one.holding.key in landings]
    judged = await _judge(flushing, missing)
    return Flushed(settled=settled + judged.settled, again=judged.again)


async def flush_alone(flushing: Flushing, conclusion: Conclusion, *, behind: int = 0) -> Flushed:
    """Write a conclusion together with its follow-up jobs and alerts, in a transaction that waits 200 ms at most.

    Where others wait `behind` it, it waits for its part of that only.
    """
    wait = max(LOCK_SECONDS / (1 + behind), SHORTEST_LOCK_SECONDS)
    try:
        async with flushing.database.transaction(lock_timeout=wait) as transaction:
            landings = await _write_group(flushing, transaction, [conclusion])
            hits = await _write_extras(transaction, conclusion) if landings else {}
    except StoreBusy:
        return Flushed(settled=[], again=[conclusion])
    except (OptionRefused, DataRefused) as error:
        return Flushed(settled=[], again=[_refused(flushing.telemetry, conclusion, error)])
    if landings:
        _tell_hits(flushing.telemetry, hits)
        return Flushed(settled=[(conclusion, landings[conclusion.holding.key])], again=[])
    return await _judge(flushing, [conclusion])


async def _judge(flushing: Flushing, missing: Sequence[Conclusion]) -> Flushed:
    """Read what became of conclusions whose rows did not come back."""
    judged = Flushed(settled=[], again=[])
    verdicts = await store.verdicts(flushing.database, [one.holding for one in missing])
    for conclusion, verdict in zip(missing, verdicts, strict=True):
        if verdict == "mine":
            judged.again.append(conclusion)
        else:
            judged.settled.append((conclusion, Landing(fate=verdict)))
    return judged


async def _write(flushing: Flushing, batch: Sequence[Conclusion]) -> Landings:
    groups = _grouped(batch)
    if len(groups) == 1:
        return await _write_split(flushing, groups[0])
    try:
        landings: Landings = {}
        async with flushing.database.transaction() as transaction:
            for group in groups:
                landings |= await _write_group(flushing, transaction, group)
        return landings
    except DataRefused:
        pass
    landings = {}
    for group in groups:
        landings |= await _write_split(flushing, group)
    return landings


async def _write_split(flushing: Flushing, group: Sequence[Conclusion]) -> Landings:
    """Write one group by itself; where a value is refused, halve it until the value stands alone."""
    try:
        return await _write_group(flushing, flushing.database, group)
    except DataRefused as error:
        flushing.telemetry.emit(FLUSH_SPLIT, jobs=len(group), error=str(error))
        if len(group) == 1:
            stand_in = _refused(flushing.telemetry, group[0], error)
            return await _write_group(flushing, flushing.database, [stand_in])
    half = len(group) // 2
    first = await _write_split(flushing, group[:half])
    return first | await _write_split(flushing, group[half:])


async def _write_group(
    flushing: Flushing, runner: Database | Transaction, group: Sequence[Conclusion]
) -> Landings:
    """Write conclusions of one lane and one kind; gives those that came back."""
    lane_id = group[0].holding.lane_id
    if isinstance(group[0].outcome, Done):
        finishes = [one.as_finish() for one in group]
        finished = await store.finish(runner, lane_id, finishes)
        if len(finished) == len(group):
            return dict.fromkeys([one.holding.key for one in group], DONE)
        holdings = [one.holding for one in group]
        return {one.key: DONE for one in holdings if (one.pos, one.claim) in finished}
    settled = await store.settle(
        runner, lane_id, [one.as_settlement() for one in group], lost_limit=flushing.lost_limit
    )
    return {(job_id, one.claim): Landing(fate=one.status, delay=one.delay) for job_id, one in settled.items()}


async def _write_extras(transaction: Transaction, conclusion: Conclusion) -> dict[UUID, FollowUp]:
    """Write follow-up jobs and alerts; gives the follow-ups that were not created, by the active job with their key."""
    follow_ups, alerts = conclusion.extras
    hits: dict[UUID, FollowUp] = {}
    for follow_up in follow_ups:
        active = await store.enqueue_follow_up(transaction, follow_up)
        if active is not None:
            hits[active] = follow_up
    for alert in alerts:
        await store.raise_alert(transaction, alert, conclusion.holding.job)
    return hits


def _tell_hits(telemetry: Telemetry, hits: Mapping[UUID, FollowUp]) -> None:
    for job_id, follow_up in hits.items():
        options = jsontext.loads(follow_up.options_text)
        key = options.get("dedupe_key") if isinstance(options, dict) else None
        telemetry.emit(JOB_DEDUPLICATED, job_id=str(job_id), job_type=follow_up.job_type, dedupe_key=key)


def _grouped(batch: Sequence[Conclusion]) -> list[list[Conclusion]]:
    groups: dict[tuple[int, bool], list[Conclusion]] = defaultdict(list)
    for conclusion in batch:
        groups[conclusion.holding.job.lane_id, isinstance(conclusion.outcome, Done)].append(conclusion)
    if len(groups) == 1:
        return [*groups.values()]
    # Lanes in order, so that two instances with the same lanes can't deadlock on what hangs on their rows.
    return [groups[key] for key in sorted(groups)]


def _refused(telemetry: Telemetry, conclusion: Conclusion, error: Exception) -> Conclusion:
    """The conclusion that always stores: a failed attempt that says, in plain ASCII, what was refused."""
    job = conclusion.holding.job
    reason = str(error).encode("ascii", "replace").decode("ascii")[:2000]
    telemetry.emit(RESULT_REPLACED, **identity_of(conclusion.holding), reason=reason)
    later = backoff.jittered(backoff.delay(job.attempts), random.random())
    delay = conclusion.outcome.delay if isinstance(conclusion.outcome, Failed) else later
    retry = conclusion.outcome.retry if isinstance(conclusion.outcome, Failed) else True
    refused = Failed(error=ErrorEntry(type="OutcomeRefused", message=reason), delay=delay, retry=retry)
    return conclusion.instead(refused)
