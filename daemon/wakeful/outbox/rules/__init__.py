"""The rules that are there without anybody asking for them: one file a rule, each named here."""

from __future__ import annotations

from typing import Final

from wakeful.outbox.rules import (
    clock_skew,
    dead_rate,
    listener_down,
    long_transaction,
    loop_blocked,
    no_worker,
    overrun,
    queue_stalled,
    rescues,
    sink_failing,
)
from wakeful.outbox.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    no_worker.RULE,  # before queue_stalled, which leaves to it what it tells
    queue_stalled.RULE,
    dead_rate.RULE,
    rescues.RULE,
    overrun.RULE,
    long_transaction.RULE,
    sink_failing.RULE,
    loop_blocked.RULE,
    listener_down.RULE,
    clock_skew.RULE,
)
