"""A job runs far longer than its like."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import detail, span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return (
        f"a job of type {found.job_type} has run for {span(found.value)};"
        f" its like take {detail(found, 'usual_seconds')} s at most, but for one in twenty"
    )


RULE: Final = Rule(
    name="overrun",
    summary="a job has run for `over`, and for more than three times what all but a twentieth of its like took",
    severity="warning",
    statement="rule_overrun",
    advice=(
        "look at its steps and log (wakeful jobs show); cancel it if it hangs, and give its type a shorter deadline"
    ),
    over=600.0,
    title=_title,
    example=Found(
        what="01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21",
        value=1500.0,
        queue="default",
        job_type="VISION",
        subject="place 9",
        details_text='{"queue": "default", "job_id": "01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21", "usual_seconds": 42.5}',
    ),
)
