"""Many jobs of one queue die, of whatever type and cause."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return f"{found.value:.0f} jobs of queue {found.queue} died within ten minutes"


RULE: Final = Rule(
    name="dead_rate",
    summary="at least `least` jobs of a queue died within ten minutes, of whatever type and cause",
    severity="critical",
    statement="rule_dead_rate",
    least=100,
    title=_title,
    example=Found(
        what="mail",
        value=140.0,
        queue="mail",
        subject="mail",
        details_text='{"queue": "mail", "deaths": 140, "job_types": 3}',
    ),
)
