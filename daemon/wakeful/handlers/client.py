"""Enqueue a job from Python, on the caller's own connection: it is committed with the data that it is about.

Invariant: nothing but one `select … from wakeful.enqueue(…)` is sent, in whatever transaction the connection is in. No
driver is imported here: an asyncpg connection, pool or proxy, a psycopg async connection, a SQLAlchemy AsyncSession or
AsyncConnection is told by what it can do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from wakeful.core.names import name_problem
from wakeful.errors import OptionRefused
from wakeful.handlers.options import EnqueueOptions, with_trace
from wakeful.handlers.plain import PAYLOAD_LIMIT_BYTES, encode_object
from wakeful.store.statements import statements
from wakeful.telemetry.tracing.joining import sending

_PLACEHOLDER: Final = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of an enqueue: `created` is False where an active job holds the dedupe key; `job_id` is that job."""

    job_id: UUID
    created: bool


async def enqueue(
    connection: Any,
    job_type: str,
    payload: object = None,
    *,
    queue: str | None = None,
    priority: str | None = None,
    subject: str | None = None,
    dedupe_key: str | None = None,
    run_after: datetime | None = None,
    max_attempts: int | None = None,
    deadline: float | str | timedelta | None = None,
    tags: tuple[str, ...] | list[str] | None = None,
    meta: Mapping[str, object] | None = None,
    group: str | None = None,
    limit_key: str | None = None,
) -> Enqueued:
    """Enqueue a job; what is left out is what its type declares. The payload is a JSON object, or a typed value of one.

    Raises ValueError for what can be seen here, OptionRefused (with PostgreSQL's SQLSTATE and hint) for what the
    database refuses, and the driver's own errors for the rest. The transaction stays the caller's.
    """
    options = EnqueueOptions(
        queue=queue,
        priority=priority,
        subject=subject,
        dedupe_key=dedupe_key,
        run_after=run_after,
        max_attempts=max_attempts,
        deadline=deadline,
        tags=tags,
        meta=meta,
        group=group,
        limit_key=limit_key,
    )
    return await enqueue_encoded(connection, job_type, encode_payload(payload), options)


async def enqueue_encoded(
    connection: Any, job_type: str, payload_text: str, options: EnqueueOptions, *, queue: str | None = None
) -> Enqueued:
    """Enqueue a job whose payload is JSON text already; `queue` is what its type declares, as far as is known here."""
    if problem := name_problem(job_type):
        raise ValueError(f"job type {problem}")
    with sending(job_type, options.queue or queue) as span:
        enqueued = await _enqueue(connection, job_type, payload_text, with_trace(options, span.carrier))
        span.sent(enqueued.job_id, created=enqueued.created)
    return enqueued


async def _enqueue(connection: Any, job_type: str, payload_text: str, options: EnqueueOptions) -> Enqueued:
    arguments = (
        job_type,
        payload_text,
        options.queue,
        options.priority,
        options.subject,
        options.dedupe_key,
        None if options.run_after is None else options.run_after.isoformat(),
        options.max_attempts,
        options.deadline_seconds,
        None if options.tags is None else list(options.tags),
        options.meta_text,
        options.group,
        options.limit_key,
    )
    try:
        job_id, created = await _fetch(connection, arguments)
    except Exception as error:  # whatever the caller's driver raises; only our own SQLSTATEs are translated
        refused = _refusal(error)
        if refused is None:
            raise
        raise refused from error
    return Enqueued(UUID(str(job_id)), bool(created))


def encode_payload(payload: object) -> str:
    """Give a payload (a mapping, a typed record, or None for an empty one) as JSON text; raises ValueError."""
    return encode_object(payload, PAYLOAD_LIMIT_BYTES, "the payload")


async def _fetch(connection: Any, arguments: tuple[object, ...]) -> tuple[object, object]:
    sql = statements()["enqueue"]
    if hasattr(connection, "fetchrow"):
        row = await connection.fetchrow(sql, *arguments)
        return row["job_id"], row["created"]
    named = {f"p{number}": argument for number, argument in enumerate(arguments, start=1)}
    if hasattr(connection, "run_sync"):
        text = sys.modules["sqlalchemy"].text(_PLACEHOLDER.sub(r":p\1", sql))
        row = (await connection.execute(text, named)).one()
        return row.job_id, row.created
    if hasattr(connection, "cursor") and hasattr(connection, "pgconn"):
        rows: Any = sys.modules["psycopg"].rows
        async with connection.cursor(row_factory=rows.tuple_row) as cursor:
            await cursor.execute(_PLACEHOLDER.sub(r"%(p\1)s", sql), named)
            job_id, created = await cursor.fetchone()
        return job_id, created
    raise TypeError(
        f"a {type(connection).__name__} is none of: asyncpg connection or pool, psycopg.AsyncConnection, "
        "SQLAlchemy AsyncSession or AsyncConnection"
    )


def _refusal(error: Exception) -> OptionRefused | None:
    """Look for our SQLSTATE on the driver's own error, which SQLAlchemy has wrapped (twice for asyncpg)."""
    wrapped = getattr(error, "orig", None)
    for found in (getattr(wrapped, "__cause__", None), wrapped, error):
        state = getattr(found, "sqlstate", None)
        if isinstance(state, str) and state.startswith("WK"):
            return OptionRefused(state, *_message_and_hint(found))
    return None


def _message_and_hint(error: Any) -> tuple[str, str | None]:
    diagnostics = getattr(error, "diag", None)  # psycopg's
    if diagnostics is not None:
        return str(diagnostics.message_primary), diagnostics.message_hint
    return str(getattr(error, "message", error)), getattr(error, "hint", None)
