"""Operators: they cancel and requeue at random, and note in the book what they did."""

from __future__ import annotations

import random
import time

import anyio
import asyncpg

from soak.evidence import Requeued
from soak.producing import AGAIN_SECONDS, BROKEN, DEADLINE_SECONDS, Book
from support.databases import Connection

EVERY_SECONDS = 0.25
SLOW = ("soak.deduped", "soak.failing", "soak.flaky", "soak.later", "soak.long", "soak.snooze")
ENDED = """select job_id::text, status from (
    (select job_id, 'DEAD' as status from wakeful.dead order by random() limit 1)
    union all
    (select job_id, status from wakeful.finished where status = 'CANCELLED' order by random() limit 1)
) as ended order by random() limit 1"""


async def meddle(dsn: str, book: Book, chance: random.Random, stop: anyio.Event) -> None:
    """Cancel and requeue until told to stop."""
    while not stop.is_set():
        try:
            connection = await asyncpg.connect(dsn, timeout=DEADLINE_SECONDS)
            try:
                while not stop.is_set():
                    await (_requeue if chance.random() < 0.4 else _cancel)(connection, book, chance)
                    await anyio.sleep(EVERY_SECONDS)
            finally:
                connection.terminate()
        except BROKEN:
            book.broken += 1
            await anyio.sleep(AGAIN_SECONDS)


async def _cancel(connection: Connection, book: Book, chance: random.Random) -> None:
    """Cancel a job of late, whatever it does just now; rather one that takes its time."""
    jobs = [job for one in book.transactions[-60:] if one.fate == "COMMITTED" for job in one.jobs]
    slow = [job_id for job_id, job_type in jobs if job_type in SLOW]
    recent = slow if slow and chance.random() < 0.7 else [job_id for job_id, _ in jobs]
    if recent:
        await connection.fetchval(
            "select wakeful.cancel($1::text::uuid, 'the soak')",
            chance.choice(recent),
            timeout=DEADLINE_SECONDS,
        )
        book.cancelled += 1


async def _requeue(connection: Connection, book: Book, _: random.Random) -> None:
    """Requeue one that has ended: DEAD and CANCELLED stay so until somebody does this, and nobody else does."""
    row = await connection.fetchrow(ENDED, timeout=DEADLINE_SECONDS)
    if row is None:
        return
    back, sure = row["job_id"], False
    try:
        back = await connection.fetchval(
            "select wakeful.requeue($1::text::uuid)", row["job_id"], timeout=DEADLINE_SECONDS
        )
        sure = True
    except asyncpg.PostgresError as error:
        if error.sqlstate != "WK012":  # refused, since its key is taken
            raise
        back = None
    finally:
        if back is not None:
            entry = Requeued(job_id=row["job_id"], was=row["status"], sure=sure, at=time.monotonic())
            book.requeued.append(entry)
