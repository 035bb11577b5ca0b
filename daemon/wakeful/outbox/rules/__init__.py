"""The rules that are there without anybody asking for them: one file a rule, each named here."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules import (
    dead_rate,
    long_transaction,
    no_worker,
    overrun,
    queue_stalled,
    rescues,
    sink_failing,
)
from wakeful.outbox.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    queue_stalled.RULE,
    no_worker.RULE,
    dead_rate.RULE,
    rescues.RULE,
    overrun.RULE,
    long_transaction.RULE,
    sink_failing.RULE,
)
