"""A sink takes nothing. The others are told, never itself: it would not hear of it, and no alert is about an alert."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.policy import SINK_FAILING
from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import detail, span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return f"alerts to {found.subject} have failed for {span(found.value)}: {detail(found, 'last_answer')}"


RULE: Final = Rule(
    name=SINK_FAILING,
    summary="a sink has taken nothing for `over`, or said that it is gone; told to the other sinks",
    severity="error",
    statement="rule_sink_failing",
    advice=("look at its last answer, correct its address or key, and try it: wakeful alerts test"),
    over=300.0,
    title=_title,
    example=Found(
        what="team",
        value=600.0,
        subject="team",
        details_text='{"sink": "team", "waiting": 20, "last_answer": "503 Service Unavailable"}',
    ),
)
