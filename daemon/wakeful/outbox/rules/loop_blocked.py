"""The event loop of an instance stood still: a handler blocked it. Told even when it is over."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import detail, span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    who = (
        "no handler is known to have blocked it"
        if found.job_type is None
        else f"a handler of {found.job_type} blocked it"
    )
    seconds = f"{found.value:.1f} s" if found.value < 10 else span(found.value)
    return f"the event loop of instance {detail(found, 'instance')} stood still for {seconds}: {who}"


RULE: Final = Rule(
    name="loop_blocked",
    summary="the event loop of an instance stood still for `over` at a stretch within the last five minutes",
    severity="warning",
    statement="rule_loop_blocked",
    advice=(
        "find loop.blocked in its log, which has the stack; write the handler as a plain function, or give"
        " it a process of its own: see docs/operations.md, An instance in trouble"
    ),
    over=1.0,
    title=_title,
    example=Found(
        what="worker-1",
        value=8.4,
        job_type="VISION",
        subject="worker-1",
        details_text='{"instance": "worker-1", "instance_id": 7, "host": "app-1", "pid": 12, "seconds": 8.4}',
    ),
)
