"""Many jobs lost their owners: instances die, or can't reach the database, and their jobs run again."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return f"{found.value:.0f} jobs of queue {found.queue} lost their instance and run again: instances die or stall"


RULE: Final = Rule(
    name="rescues",
    summary="at least `least` unfinished jobs of a queue were taken back from instances that died or stalled",
    severity="error",
    statement="rule_rescues",
    least=20,
    title=_title,
    example=Found(
        what="default",
        value=34.0,
        queue="default",
        subject="default",
        details_text='{"queue": "default", "jobs": 34, "lost_twice": 2}',
    ),
)
