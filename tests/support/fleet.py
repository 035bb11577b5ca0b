"""Producers, operators, three instances and the fleet's upkeep on one real database, driven from a test without a loop.

Every call is an operation of the SQL API or of the store as it is; what it should have done is the model's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from uuid import UUID

import anyio
import asyncpg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from support.cluster import Cluster
from support.databases import ClonedDatabase, Connection, cloned_database
from support.model import ModelJob
from support.working import REGISTRATION, telling
from wakeful.core.outcome import FollowUp
from wakeful.core.settings import DatabaseSettings
from wakeful.runtime import reaper
from wakeful.runtime.lease import new_incarnation, new_token
from wakeful.store import instances, jobs, lanes, upkeep
from wakeful.store.database import Database, open_database
from wakeful.store.jobs import Claimed, Finish, Settlement, Verb

T = TypeVar("T")
COLUMNS = """job_id, queue, job_type, dedupe_key, max_attempts, attempts, run_no, coalesce(lost, 0),
             coalesce(handed_back, 0), coalesce(snoozed, 0), moved_by"""
SEEN = f"""
select {COLUMNS}, 'ready', case when owner is null then 'PENDING' else 'RUNNING' end, owner, claim,
       cancel_requested_at is not null from wakeful.ready
union all select {COLUMNS}, 'scheduled', 'PENDING', null, null, false from wakeful.scheduled
union all select {COLUMNS}, 'dead', 'DEAD', null, null, false from wakeful.dead
union all select {COLUMNS}, 'finished', status, null, null, false from wakeful.finished
"""
TOLD = """
select (select count(*) from wakeful.alert_outbox where kind = 'job_dead'),
       (select count(*) from wakeful.alert_outbox where kind = 'never_finishes'),
       (select count(*) from wakeful.alert_outbox where kind = 'note'),
       (select count(*) from wakeful.audit where action in ('cancel', 'requeue'))
"""
STRAY = """
select r.job_id from wakeful.ready r
where r.lane_id <> wakeful.lane_id(r.queue, r.priority, r.job_type, r.limit_key, r.lost >= 2)
union all
select s.job_id from wakeful.scheduled s
where s.lane_id <> wakeful.lane_id(s.queue, s.priority, s.job_type, s.limit_key, s.lost >= 2)
"""
SERVE = "update wakeful.instance set every_type = $1, serves = $2::text::jsonb"
EMPTY = (
    "ready", "scheduled", "dead", "finished", "dedupe", "progress", "instance", "lane", "lane_seen", "queue",
    "alert_outbox", "audit",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim that was ever made, whether it still holds or not."""

    slot: int
    instance: int
    claimed: Claimed

    @property
    def job_id(self) -> UUID:
        return self.claimed.job.job_id

    @property
    def token(self) -> int:
        return self.claimed.job.claim


class Fleet:
    """Three instances, by their slots, and everybody else."""

    def __init__(
        self,
        portal: BlockingPortal,
        databases: Sequence[Database],
        sql: Connection,
        *,
        askers: Mapping[str, Connection],
    ) -> None:
        self._portal = portal
        self._databases = databases
        self._sql = sql
        self._askers = askers
        self.owners: list[tuple[int, int]] = []

    def call(self, work: Callable[..., Awaitable[T]], *given: object) -> T:
        """Run one piece of work on the loop."""
        return self._portal.call(work, *given)

    def ask(self, query: str, *given: object) -> list[Any]:
        """Ask the database, as its owner."""
        return self.call(self._sql.fetch, query, *given)

    def code(self, query: str, *given: object) -> Any:
        """Give the one value of a call, or the SQLSTATE of its refusal."""
        try:
            return self.ask(query, *given)[0][0]
        except asyncpg.PostgresError as error:
            return error.sqlstate

    def begin_anew(self) -> None:
        """Empty the database, and register three instances."""
        self.call(self._sql.execute, ";".join(f"delete from wakeful.{table}" for table in EMPTY))
        self.owners = [self.call(self._register, slot) for slot in range(3)]

    def replace(self, slot: int) -> None:
        """Another instance takes the place of one that is gone."""
        self.owners[slot] = self.call(self._register, slot)

    async def _register(self, slot: int) -> tuple[int, int]:
        incarnation = new_incarnation()
        return await instances.register(
            self._databases[slot], REGISTRATION, incarnation=incarnation
        ), incarnation

    def seen(self) -> dict[UUID, ModelJob]:
        """Every job as the tables have it. A job in two tables is an error."""
        rows = self.ask(SEEN)
        found = {row[0]: _as_model(row) for row in rows}
        assert len(found) == len(rows), "a job is in two places"
        return found

    def told(self) -> tuple[int, ...]:
        """Deaths, jobs that never finish, alerts of producers, and entries of the audit."""
        return tuple(self.ask(TOLD)[0])

    def keys(self) -> dict[str, UUID]:
        """The keys that are taken, and by whom."""
        return {row[0]: row[1] for row in self.ask("select key, job_id from wakeful.dedupe")}

    def strays(self) -> list[Any]:
        """Waiting jobs in a lane that is not theirs."""
        return self.ask(STRAY)

    def enqueue_rolled_back(self, options: str, key: str | None) -> None:
        """Enqueue in a transaction that does not commit."""

        async def work() -> None:
            with suppress(ZeroDivisionError):
                async with self._sql.transaction():
                    await self._sql.fetch(options, key)
                    raise ZeroDivisionError

        self.call(work)

    def lanes(self, slot: int = 0) -> list[jobs.Lane]:
        """The lanes with something to claim."""
        return self.call(lambda: jobs.find_lanes(self._databases[slot], job_types=None, queues=None))

    def first_of(self, lane_id: int, limit: int) -> list[UUID]:
        """The jobs that a claim of this lane has to take."""
        query = "select job_id from wakeful.ready where lane_id = $1 and owner is null order by pos limit $2"
        return [row[0] for row in self.ask(query, lane_id, limit)]

    def claim(self, slots: Sequence[int], lane: jobs.Lane, limit: int) -> list[Claim]:
        """Claim from one lane, by several instances at once."""
        made: list[Claim] = []

        async def one(slot: int) -> None:
            claimed = await jobs.claim(
                self._databases[slot], lane, limit, owner=self.owners[slot], token=new_token(), hurried=False
            )
            made.extend(Claim(slot=slot, instance=self.owners[slot][0], claimed=each) for each in claimed)

        self.call(_together, [lambda slot=slot: one(slot) for slot in slots])
        return made

    def release(self, claim: Claim) -> int:
        """Give back what a claim with a lost reply took."""
        job = claim.claimed.job
        given = self.call(
            lambda: jobs.release_claim(self._databases[claim.slot], job.lane_id, job.claim, first=job.pos)
        )
        return given[0]

    async def finish(self, claim: Claim, *, token: int | None = None) -> bool:
        """DONE; False: it did not come back."""
        job = claim.claimed.job
        one = Finish(pos=job.pos, claim=token or job.claim, result="{}", degraded=None, keep=True)
        return bool(await jobs.finish(self._databases[claim.slot], job.lane_id, [one]))

    async def settle(self, claim: Claim, verb: Verb, *, later: bool) -> str | None:
        """Any other end; None: it did not come back."""
        job = claim.claimed.job
        one = Settlement(
            pos=job.pos, claim=job.claim, verb=verb, reason="why", entry=None, delay=3600.0 if later else 0.0
        )
        settled = await jobs.settle(self._databases[claim.slot], job.lane_id, [one], lost_limit=3)
        return settled[job.job_id].status if job.job_id in settled else None

    async def finish_with(self, claim: Claim, follow_up: FollowUp) -> tuple[bool, UUID | None]:
        """DONE and a follow-up in one transaction, rolled back where the job does not come back.

        Gives whether it did, and the job that had the follow-up's key already.
        """
        job = claim.claimed.job
        one = Finish(pos=job.pos, claim=job.claim, result="{}", degraded=None, keep=True)
        with suppress(ZeroDivisionError):
            async with self._databases[claim.slot].transaction() as transaction:
                if not await jobs.finish(transaction, job.lane_id, [one]):
                    raise ZeroDivisionError
                return True, await jobs.enqueue_follow_up(transaction, follow_up)
        return False, None

    def verdicts(self, claims: Sequence[Claim]) -> list[jobs.Verdict]:
        """What became of claims."""
        return self.call(lambda: jobs.verdicts(self._databases[0], [one.claimed.job for one in claims]))

    def look_up(self, claims: Sequence[Claim]) -> tuple[set[int], set[int]]:
        """Which claims hold, and which are to be cancelled."""
        held = [one.claimed.job for one in claims]
        found = self.call(lambda: instances.look_up_held(self._databases[0], held, deadline=10.0))
        return found[0], set(found[1])

    def beat(self, slot: int) -> bool:
        """One heartbeat."""
        beat = self.call(lambda: instances.beat(self._databases[slot], self.owners[slot], deadline=10.0))
        return beat is not None

    def drain(self, slot: int) -> None:
        """Claim nothing any more."""
        self.call(lambda: self.leave(slot))

    async def leave(self, slot: int) -> None:
        """Say that an instance claims nothing any more."""
        await instances.drain(self._databases[slot], self.owners[slot])

    async def retire(self, slot: int) -> bool:
        """End an instance in peace, if it holds nothing."""
        return await instances.retire(self._databases[slot], self.owners[slot])

    async def expire(self, instance: int) -> None:
        """Let a lease run out."""
        await self._databases[0].fetch("expire_lease", instance)

    async def die(self, instance: int) -> None:
        """Let a lease run out, and take back what was held."""
        await self.expire(instance)
        await self.reap()

    async def ask_for(self, what: Literal["cancel", "requeue"], job_id: UUID) -> None:
        """Ask for a cancellation or another run, whatever the answer, each on a connection of its own."""
        with suppress(asyncpg.PostgresError):
            await self._askers[what].fetch(f"select wakeful.{what}($1)", job_id)

    async def reap(self) -> set[UUID]:
        """Take back what dead instances held."""
        return {one.job_id for one in await reaper.reap_once(self._databases[0])}

    def promote(self, job_id: UUID) -> int:
        """Let one job's time come, and promote what is due of all that wait."""
        self.ask("update wakeful.scheduled set run_after = now() where job_id = $1", job_id)
        due = self.call(lambda: upkeep.look_at_due(self._databases[1], 1000))
        everything = [row[0] for row in self.ask("select job_id from wakeful.scheduled")]
        return sum(
            self.call(lambda lane=lane: upkeep.promote(self._databases[1], lane, everything))
            for lane in due.lanes
        )

    def fail_unserved(self, job_type: str) -> dict[UUID, str]:
        """Look as the duty does while nobody serves a type, then fail what waits of it. Gives the statuses."""
        others = "select array_agg(t) from unnest(array['S', 'T']) t where t <> $1"
        (served,) = self.ask(others, job_type)[0]
        self.ask(SERVE, False, json.dumps(dict.fromkeys(served, "hash")))
        some = self.call(lanes.mark_unserved, self._databases[0])
        found = self.call(lanes.find_unserved, self._databases[0], 0.0)
        assert some or not found
        failed: dict[UUID, str] = {}
        for lane in found:
            assert lane.job_type == job_type
            waiting = self.call(lanes.find_unserved_jobs, self._databases[0], lane.lane_id, 0, 1000)
            positions = [*waiting.values()]
            failed |= self.call(lanes.fail_unserved, self._databases[0], lane.lane_id, positions)
        self.ask(SERVE, True, "{}")
        self.call(lanes.mark_unserved, self._databases[0])
        assert not self.call(lanes.mark_unserved, self._databases[0]), "somebody serves all of them again"
        return failed

    def fold_lanes(self, limit: int) -> int:
        """Fold what producers noted of new lanes; gives how many notes were read."""
        return self.call(lanes.fold_lanes, self._databases[1], limit)

    def prune_dead(self, limit: int) -> int:
        """Remove the oldest dead letters."""
        return self.call(lambda: upkeep.prune_dead(self._databases[2], 0.0, limit))

    def race(self, works: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Do several things at once."""
        self.call(_together, works)


async def _together(works: Sequence[Callable[[], Awaitable[object]]]) -> None:
    async with anyio.create_task_group() as group:
        for work in works:
            group.start_soon(_done, work)


async def _done(work: Callable[[], Awaitable[object]]) -> None:
    await work()


def _as_model(row: Any) -> ModelJob:
    (_, queue, job_type, key, most, attempts, run_no, lost, handed_back, snoozed, moved_by,
     table, status, owner, token, cancel) = row  # fmt: skip
    return ModelJob(
        queue=queue, job_type=job_type, key=key, max_attempts=most, table=table, status=status, attempts=attempts,
        run_no=run_no, lost=lost, handed_back=handed_back, snoozed=snoozed, owner=owner, token=token,
        moved_by=moved_by, cancel_requested=cancel,
    )  # fmt: skip


@contextmanager
def running_fleet(cluster: Cluster) -> Iterator[Fleet]:
    """A fleet on a database of its own."""
    with start_blocking_portal() as portal, ExitStack() as stack:

        def enter(opened: Any) -> Any:
            return stack.enter_context(portal.wrap_async_context_manager(opened))

        db: ClonedDatabase = enter(cloned_database(cluster))
        settings = DatabaseSettings(dsn=db.dsn, connections=2)
        databases = [enter(open_database(settings, telling()[0])) for _ in range(3)]
        askers = {what: portal.call(db.connect) for what in ("cancel", "requeue")}
        yield Fleet(portal, databases, portal.call(db.connect), askers=askers)
