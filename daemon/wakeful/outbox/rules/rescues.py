"""Many jobs lost their owners of late: instances die, or can't reach the database, and their jobs run again."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    which = (
        f"queue {found.queue}" if found.job_type is None else f"type {found.job_type} in queue {found.queue}"
    )
    return f"{found.value:.0f} jobs of {which} lost their instance within ten minutes: instances die or stall"


RULE: Final = Rule(
    name="rescues",
    summary="within ten minutes at least `least` jobs of a queue, or of a type that settings name, lost their instance",
    severity="error",
    statement="rule_rescues",
    advice=(
        "find out why instances end or fall silent: killed for their memory, cut off from the database,"
        " out of processor time"
    ),
    least=20,
    sums=True,
    title=_title,
    example=Found(
        what="default",
        value=34.0,
        queue="default",
        subject="default",
        details_text='{"queue": "default", "jobs": 34}',
    ),
)
