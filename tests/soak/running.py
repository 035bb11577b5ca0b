"""One soak from start to end: fleet, producers, operators, one fault after the other, quiet at last, evidence.

Invariant: at the end of the block every process that was started is gone, however the soak went.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio

from soak import reading
from soak.daemon_faults import SLOT_KINDS
from soak.evidence import Evidence, Fault, Usage
from soak.fleet import kept, running_fleet
from soak.judge import judge
from soak.meddling import meddle
from soak.mix import Element, draw
from soak.plan import Plan, Planned, faults
from soak.producing import BROKEN, Book, Producer
from soak.server_faults import SERVER_KINDS
from soak.stage import DATABASE, PRODUCER, WORKER, Stage
from soak.verdict import Verdict
from soak.watching import (
    QUICK,
    STEP_SECONDS,
    WINDOW_SECONDS,
    Finishes,
    OrphanWatch,
    back_after,
    is_whole,
    usage,
)
from support.cluster import TEMPLATE, Cluster, execute, make_template
from support.ledger import Ledger

KINDS = {**SLOT_KINDS, **SERVER_KINDS}
QUICK_SHARE = 0.7
WARM_SECONDS = 2.0
START_SECONDS = 60.0
FLUSH_SECONDS = 0.2  # the ledger's last lines may be on their way
QUIET_SECONDS = 90.0
SETUP = f"""
create role {WORKER} login in role wakeful_worker;
create role {PRODUCER} login in role wakeful_producer;
create database {DATABASE} template {TEMPLATE};
"""
BUSY = """select (select count(*) from wakeful.ready) + (select count(*) from wakeful.scheduled)
              + (select count(*) from wakeful.alert_outbox where alert_id is null)"""


@dataclass(slots=True, kw_only=True)
class Soaked:
    """What a soak came to."""

    plan: Plan
    evidence: Evidence
    verdicts: Sequence[Verdict]
    lines: Sequence[reading.Line]
    logs: dict[str, Sequence[str]]
    cancelled: int
    broken: int

    @property
    def holds(self) -> bool:
        """Whether every invariant held."""
        return all(verdict.holds for verdict in self.verdicts)


@dataclass(slots=True, kw_only=True)
class Course:
    """The course of a soak: what was done so far, and who sees how throughput comes back."""

    stage: Stage
    book: Book
    finishes: Finishes
    say: Callable[[str], None]
    faults: list[Fault] = field(default_factory=list)
    loads: list[float] = field(default_factory=lambda: [0.0])  # of the machine, one a fault

    async def run(self) -> None:
        """One fault after the other until the time is up."""
        plan = self.stage.plan
        over = time.monotonic() + plan.seconds
        beyond = frozenset(name for name, kind in KINDS.items() if kind.beyond_lease)
        for planned in faults(plan, {name: kind.of for name, kind in KINDS.items()}, beyond_lease=beyond):
            if time.monotonic() + max(one.seconds for one in planned) + plan.rest > over:
                return
            await self._one(planned)

    async def _one(self, planned: tuple[Planned, ...]) -> None:
        done: list[Fault] = []
        async with anyio.create_task_group() as group:
            for one in planned:
                group.start_soon(self._act, one, len(planned) == 1, done)
        ended = time.monotonic()
        self.loads.append(os.getloadavg()[0])
        back, whole = await self._recovered(ended)
        self.faults += [replace(one, back=back, whole=whole) for one in done]
        shown = " and ".join(
            f"{one.kind} of {one.slot} ({one.ended - one.began:.1f} s{one.note})" for one in done
        )
        self.say(f"{shown}: back after {_seconds(back)}, whole after {_seconds(whole)}")

    async def _act(self, planned: Planned, alone: bool, done: list[Fault]) -> None:
        began, note = time.monotonic(), ""
        try:
            await KINDS[planned.kind].act(self.stage, planned)
        except BROKEN as error:  # the server was away for another fault
            note = f", cut short by {type(error).__name__}"
        done.append(
            Fault(
                kind=planned.kind,
                slot=planned.slot,
                began=began,
                ended=time.monotonic(),
                alone=alone,
                note=note,
            )
        )

    async def _recovered(self, ended: float) -> tuple[float | None, float | None]:
        """Wait for throughput and for every daemon, at most until the bounds, and rest; gives the seconds of both."""
        plan = self.stage.plan
        back, whole = None, None
        give_up = ended + plan.whole + WINDOW_SECONDS + STEP_SECONDS
        while (back is None or whole is None) and time.monotonic() < give_up:
            await anyio.sleep(STEP_SECONDS)
            back = self._back(ended) if back is None else back
            if whole is None and await is_whole(self.stage):
                whole = time.monotonic() - ended
        await anyio.sleep(max(0.0, ended + plan.rest - time.monotonic()))
        return back, whole

    def _back(self, ended: float) -> float | None:
        self.finishes.read()
        return back_after(
            self.book.arrivals(QUICK, since=ended),
            self.finishes.at,
            since=ended,
            until=time.monotonic() - FLUSH_SECONDS,
            rate=self.stage.plan.rate * QUICK_SHARE,
        )


def _seconds(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f} s"


async def soak(plan: Plan, cluster: Cluster, folder: Path, *, say: Callable[[str], None]) -> Soaked:
    """Run one soak on a fresh server."""
    await make_template(cluster)
    await _each(cluster, SETUP)
    ledger, book = folder / "ledger.jsonl", Book()
    ledger.touch()
    with running_fleet(plan, cluster.socket, DATABASE, WORKER, ledger) as fleet:
        stage = Stage(plan=plan, cluster=cluster, fleet=fleet, ledger=ledger)
        course = Course(stage=stage, book=book, finishes=Finishes(ledger), say=say)
        watch = OrphanWatch(stage)
        async with kept(fleet):
            await _until(
                stage,
                f"select count(*) >= {plan.daemons} from wakeful.instance where state = 'live'",
                START_SECONDS,
            )
            async with _under_load(stage, book, watch):
                await anyio.sleep(WARM_SECONDS)
                before = await usage(stage)
                await course.run()
            say("quiet")
            await _until(stage, f"select ({BUSY}) = 0", QUIET_SECONDS)
            after = await _settled(stage)
            lines, found = await _evidence(stage, book)
            await _stop(stage)
        found = replace(
            found,
            faults=course.faults,
            orphans=watch.seen,
            requeued=book.requeued,
            before=before,
            after=after,
            lifetimes=fleet.lifetimes(),
        )
        plan = plan.under(max(course.loads) / (os.cpu_count() or 1))
        return Soaked(
            plan=plan,
            evidence=found,
            verdicts=judge(found, plan),
            lines=lines,
            logs={slot.name: slot.logs for slot in fleet.slots.values()},
            cancelled=book.cancelled,
            broken=book.broken,
        )


async def _each(cluster: Cluster, script: str) -> None:
    """A database can't be made together with anything else."""
    for statement in script.strip().splitlines():
        await execute(cluster.dsn(), statement)


@asynccontextmanager
async def _under_load(stage: Stage, book: Book, watch: OrphanWatch) -> AsyncIterator[None]:
    """Producers and operators at work beside the block, and somebody who looks for orphans until all is quiet."""
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        for producer in _producers(stage, book):
            group.start_soon(producer.run, stop)
        group.start_soon(meddle, stage.cluster.dsn(DATABASE), book, random.Random(stage.plan.seed + 50), stop)
        group.start_soon(watch.run, stop)
        try:
            yield
        finally:
            stop.set()


def _producers(stage: Stage, book: Book) -> Sequence[Producer]:
    """One that is steady, by which throughput is measured, and two of every temper, one of which is slow to commit."""
    plan, dsn = stage.plan, stage.cluster.dsn(DATABASE, role=PRODUCER)
    chances = [random.Random(plan.seed + number) for number in range(3)]
    mixed = plan.rate * (1 - QUICK_SHARE)
    rates = (plan.rate * QUICK_SHARE, 0.8 * mixed, 0.2 * mixed)
    temper: tuple[tuple[float, float], ...] = ((0.0, 0.0), (0.1, 0.0), (0.1, 0.3))
    return [
        Producer(
            dsn=dsn,
            book=book,
            rate=rate,
            make=_quick if number == 0 else partial(_mixed, plan, chances[number]),
            chance=chances[number],
            rolls_back=rolls_back,
            holds=holds,
            longest_hold=plan.longest / 2,
        )
        for number, (rate, (rolls_back, holds)) in enumerate(zip(rates, temper, strict=True))
    ]


def _quick() -> Element:
    return {"job_type": QUICK}


def _mixed(plan: Plan, chance: random.Random) -> Element:
    return draw(chance, lease=plan.timing.lease, isolated=plan.isolated)


async def _until(stage: Stage, condition: str, seconds: float) -> None:
    """Look until it is so, or for so long; the judge sees what is not."""
    with anyio.move_on_after(seconds):
        while True:
            try:
                async with stage.connected() as connection:
                    while not await connection.fetchval(condition):
                        await anyio.sleep(0.1)
                    return
            except BROKEN:
                await anyio.sleep(0.1)


async def _settled(stage: Stage) -> Usage:
    """What is used once vacuum has been by."""
    async with stage.connected() as connection:
        await connection.execute("vacuum (analyze)")
    return await usage(stage)


async def _evidence(stage: Stage, book: Book) -> tuple[Sequence[reading.Line], Evidence]:
    lines = Ledger(stage.ledger).lines()
    async with stage.connected() as connection:
        found = await reading.evidence(
            connection, lines=lines, enqueued=book.enqueued(), lifetimes=stage.fleet.lifetimes()
        )
    return lines, found


async def _stop(stage: Stage) -> None:
    """Ask all of them to stop."""
    stage.fleet.down.update(stage.fleet.slots)
    for slot in stage.fleet.slots.values():
        slot.send(signal.SIGTERM, why="stopped")
    timing = stage.plan.timing
    with anyio.move_on_after(timing.grace + timing.interrupt + 30.0):
        while not all(slot.ended() for slot in stage.fleet.slots.values()):
            await anyio.sleep(0.05)
