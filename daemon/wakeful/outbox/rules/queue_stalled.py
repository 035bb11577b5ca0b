"""Jobs are due and nobody takes any: paused, no instance for the queue, all workers busy, or nothing says why."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import detail, span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return (
        f"queue {found.queue} stands still: for {span(found.value)} nobody has taken a job of type {found.job_type}"
        f" ({detail(found, 'reason')})"
    )


RULE: Final = Rule(
    name="queue_stalled",
    summary="due jobs wait, and nobody has taken one of their kind for `over`; names the reason, if it is known",
    severity="error",
    statement="rule_queue_stalled",
    advice=("see the reason; resume the queue, start an instance that serves it, or add workers"),
    over=300.0,
    title=_title,
    example=Found(
        what="mail:SEND_MAIL",
        value=420.0,
        queue="mail",
        job_type="SEND_MAIL",
        subject="mail",
        details_text='{"queue": "mail", "oldest_due_seconds": 431, "reason": "all workers are busy with other jobs"}',
    ),
)
