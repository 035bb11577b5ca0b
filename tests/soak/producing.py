"""Producers: they enqueue in transactions, roll some of them back or hold them for a while, and keep a book.

Invariant: a job's id is in the book before its commit is sent, and its fate there is what the producer saw: COMMITTED,
ROLLED_BACK (or failed before the commit was sent), or UNKNOWN, if the connection broke and the commit had no reply.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio
import asyncpg

from soak.evidence import Enqueued, Requeued
from soak.mix import Element
from support.databases import Connection

TICK_SECONDS = 0.05
DEADLINE_SECONDS = 5.0
AGAIN_SECONDS = 0.1
OVERTAKES_SECONDS = 30.0  # by so much transactions may be written down out of their order
BROKEN = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)
ENQUEUE = "select job_id::text, created, sqlstate, ordinal from wakeful.enqueue_many($1::text::jsonb) order by ordinal"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction of a producer: the jobs that it created (id, type)."""

    jobs: Sequence[tuple[str, str]]
    fate: str = "UNKNOWN"
    at: float = 0.0


@dataclass(slots=True)
class Book:
    """What producers and operators did, as they saw it."""

    transactions: list[Transaction] = field(default_factory=list)
    requeued: list[Requeued] = field(default_factory=list)
    cancelled: int = 0
    broken: int = 0

    def enqueued(self) -> list[Enqueued]:
        """Each job with its fate."""
        return [
            Enqueued(job_id=job_id, job_type=job_type, fate=one.fate, at=one.at)
            for one in self.transactions
            for job_id, job_type in one.jobs
        ]

    def arrivals(self, job_type: str, *, since: float) -> list[float]:
        """When jobs of a type were committed, in order, from a time on."""
        found: list[float] = []
        for one in reversed(self.transactions):
            if one.fate == "COMMITTED" and one.at < since - OVERTAKES_SECONDS:
                break
            if one.fate == "COMMITTED" and one.at >= since:
                found += [one.at for _, type_of_it in one.jobs if type_of_it == job_type]
        return sorted(found)


@dataclass(slots=True, kw_only=True)
class Producer:
    """Enqueues `rate` jobs a second over one connection, which it opens again when it breaks.

    `rolls_back` and `holds`: the share of transactions that are rolled back, or held open for a while before their end.
    """

    dsn: str
    book: Book
    rate: float
    make: Callable[[], Element]
    chance: random.Random
    rolls_back: float = 0.0
    holds: float = 0.0
    longest_hold: float = 0.0

    async def run(self, stop: anyio.Event) -> None:
        """Produce until told to stop."""
        while not stop.is_set():
            try:
                connection = await asyncpg.connect(self.dsn, timeout=DEADLINE_SECONDS)
                try:
                    await self._produce(connection, stop)
                finally:
                    connection.terminate()
            except BROKEN:
                self.book.broken += 1
                await anyio.sleep(AGAIN_SECONDS)

    async def _produce(self, connection: Connection, stop: anyio.Event) -> None:
        due, before = 0.0, time.monotonic()
        while not stop.is_set():
            now = time.monotonic()
            # What could not be enqueued for more than a second is let go: arrivals stay near the rate.
            due, before = due + self.rate * min(now - before, 1.0), now
            if due >= 1:
                await self._transaction(connection, [self.make() for _ in range(int(due))])
                due -= int(due)
            await anyio.sleep(TICK_SECONDS)

    async def _transaction(self, connection: Connection, elements: Sequence[Element]) -> None:
        await connection.execute("begin", timeout=DEADLINE_SECONDS)
        try:
            rows = await connection.fetch(ENQUEUE, json.dumps(elements), timeout=DEADLINE_SECONDS)
            if self.chance.random() < self.holds:
                await anyio.sleep(self.chance.uniform(0.1, 1.0) * self.longest_hold)
        except asyncpg.PostgresError:
            await connection.execute("rollback", timeout=DEADLINE_SECONDS)
            raise
        jobs = [
            (row["job_id"], str(elements[row["ordinal"] - 1]["job_type"])) for row in rows if row["created"]
        ]
        entry = Transaction(jobs=jobs)
        self.book.transactions.append(entry)
        if self.chance.random() < self.rolls_back:
            entry.fate = "ROLLED_BACK"
            await connection.execute("rollback", timeout=DEADLINE_SECONDS)
        else:
            said = await connection.execute("commit", timeout=DEADLINE_SECONDS)
            entry.fate = "COMMITTED" if said == "COMMIT" else "ROLLED_BACK"
        entry.at = time.monotonic()
