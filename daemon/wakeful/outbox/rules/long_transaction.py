"""A transaction has been open for so long that dead rows can't be removed: the queue gets slower."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules.rule import Rule
from wakeful.outbox.rules.words import detail, span
from wakeful.store.conditions import Found


def _title(found: Found) -> str:
    return (
        f"a transaction of {found.subject or 'an unnamed application'} (pid {detail(found, 'pid')}) has been open"
        f" for {span(found.value)}: dead rows of the queue can't be removed"
    )


RULE: Final = Rule(
    name="long_transaction",
    summary="a transaction has held a snapshot for `over`, so that dead rows of the queue can't be removed",
    severity="warning",
    statement="rule_long_transaction",
    advice=(
        "end it, or its session (select pg_terminate_backend(pid)); where it comes again,"
        " give its role an idle_in_transaction_session_timeout"
    ),
    over=900.0,
    title=_title,
    example=Found(
        what="oldest",
        value=1260.0,
        subject="psql",
        details_text='{"pid": 4711, "application": "psql", "role": "ops", "state": "idle in transaction"}',
    ),
)
