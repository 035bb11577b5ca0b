"""The clock of an instance differs from the database's: what handlers and receivers believe of the time is wrong."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import detail, span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    ahead = detail(found, "seconds_ahead")
    which = "behind" if isinstance(ahead, int | float) and ahead < 0 else "ahead of"
    return f"the clock of instance {detail(found, 'instance')} is {span(found.value)} {which} the database's"


RULE: Final = Rule(
    name="clock_skew",
    summary="the clock of an instance differs from the database's by `over`",
    severity="warning",
    statement="rule_clock_skew",
    advice=(
        "compare both hosts with a time server, and set the wrong one by NTP:"
        " see docs/operations.md, An instance in trouble"
    ),
    over=5.0,
    title=_title,
    example=Found(
        what="worker-1",
        value=42.0,
        subject="worker-1",
        details_text='{"instance": "worker-1", "instance_id": 7, "host": "app-1", "pid": 12, "seconds_ahead": 42.0}',
    ),
)
