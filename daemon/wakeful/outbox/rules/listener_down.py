"""An instance is woken by no notification: its listening connection is gone, or hears nothing. It polls meanwhile."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import detail, span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return (
        f"instance {detail(found, 'instance')} has heard no notification for {span(found.value)}:"
        " its jobs are found by polling, and start later"
    )


RULE: Final = Rule(
    name="listener_down",
    summary="the listening connection of a live instance has been down for `over`, while the database answers it",
    severity="warning",
    statement="rule_listener_down",
    advice=(
        "find listener.lost or listener.degraded in its log; behind a pooler give database.listen_dsn the server's own"
        " address: see docs/operations.md, An instance in trouble"
    ),
    over=60.0,
    title=_title,
    example=Found(
        what="worker-1",
        value=190.0,
        subject="worker-1",
        details_text='{"instance": "worker-1", "instance_id": 7, "host": "app-1", "pid": 12}',
    ),
)
