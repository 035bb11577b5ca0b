"""Many jobs of one queue die, of whatever type and cause; or of one type, where settings name it."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    which = (
        f"queue {found.queue}" if found.job_type is None else f"type {found.job_type} in queue {found.queue}"
    )
    return f"{found.value:.0f} jobs of {which} died within ten minutes"


RULE: Final = Rule(
    name="dead_rate",
    summary="at least `least` jobs of a queue, or of a type that settings name, died within ten minutes",
    severity="critical",
    statement="rule_dead_rate",
    advice=(
        "look at the latest errors (wakeful jobs list --status DEAD); if a service that all of them need is down,"
        " pause the queue, and requeue them when it is back"
    ),
    least=100,
    sums=True,
    title=_title,
    example=Found(
        what="mail",
        value=140.0,
        queue="mail",
        subject="mail",
        details_text='{"queue": "mail", "deaths": 140, "job_types": 3}',
    ),
)
