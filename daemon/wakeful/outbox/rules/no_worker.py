"""Jobs wait whose type no live instance serves."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return (
        f'no live instance serves job type "{found.job_type}": its jobs have waited for {span(found.value)}'
    )


RULE: Final = Rule(
    name="no_worker",
    summary="jobs wait whose type no live instance has served for `over`",
    severity="error",
    statement="rule_no_worker",
    advice=("start an instance that has a handler of this type, or cancel the jobs"),
    over=120.0,
    title=_title,
    example=Found(
        what="AI_CHECK",
        value=180.0,
        queue="default",
        job_type="AI_CHECK",
        details_text='{"queue": "default"}',
    ),
)
