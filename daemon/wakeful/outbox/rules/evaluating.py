"""Evaluates the rules: what holds becomes or stays an alert, what has ended is resolved.

Invariant: right at any number of instances at once: an alert is opened once, and each says only that it still holds.
One rule that fails stops no other. An instance that ends rules where it did not look first would end what still holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.core.alert_settings import RuleSettings
from wakeful.errors import DataRefused, StoreBusy
from wakeful.outbox.policy import best_rule
from wakeful.outbox.rules.rule import SETTLE_SECONDS, Rule
from wakeful.store import conditions
from wakeful.store.conditions import Condition, Found
from wakeful.store.database import Database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_OPENED, ALERT_RESOLVED, RULE_FAILED

JOB_FAILED: Final = "job_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating:
    """Rules and how they are set. `on_change` is called where there is something to tell."""

    database: Database
    telemetry: Telemetry
    rules: Sequence[Rule]
    settings: Mapping[str, RuleSettings] = field(default_factory=dict)
    settle: float = SETTLE_SECONDS

    async def evaluate(self, stop: anyio.Event) -> None:
        """Look at everything once, until `stop` is set. Raises StoreUnavailable in an outage."""
        await conditions.keep_critical(self.database, critical_types(self.settings))
        open_kinds = await conditions.open_kinds(self.database)
        for rule in self.rules:
            if stop.is_set():
                return
            try:
                await self._hold(rule)
                if rule.name in open_kinds:
                    await self._end(rule)
            except (StoreBusy, DataRefused) as error:
                self.telemetry.emit(RULE_FAILED, rule=rule.name, error=str(error))

    async def _hold(self, rule: Rule) -> None:
        found = await conditions.find(self.database, rule.statement, self._lowest(rule))
        held = [condition_of(rule, one, self._set(rule, one)) for one in found if self._holds(rule, one)]
        for opened in await conditions.hold(self.database, rule.name, held):
            self.telemetry.emit(
                ALERT_OPENED,
                alert_id=opened.alert_id,
                kind=opened.kind,
                subject=opened.subject,
                title=opened.title,
            )

    async def _end(self, rule: Rule) -> None:
        for ended in await conditions.end(self.database, rule.name, self.settle):
            self.telemetry.emit(
                ALERT_RESOLVED, alert_id=ended.alert_id, kind=ended.kind, occurrences=ended.occurrences
            )

    def _lowest(self, rule: Rule) -> float:
        """The lowest threshold for whatever queue and job type: the statement finds all that may be beyond its own."""
        named = [one for section, one in self.settings.items() if (one.rule or section) == rule.name]
        return min([rule.threshold, *(rule.threshold_of(one) for one in named)])

    def _set(self, rule: Rule, found: Found) -> RuleSettings | None:
        return best_rule(self.settings, rule.name, queue=found.queue, job_type=found.job_type)

    def _holds(self, rule: Rule, found: Found) -> bool:
        settings = self._set(rule, found)
        return (settings is None or not settings.off) and found.value >= rule.threshold_of(settings)


def critical_types(settings: Mapping[str, RuleSettings]) -> list[str]:
    """Give the job types of which the first failed attempt is told: those that the rule job_failed names."""
    named = [one for section, one in settings.items() if (one.rule or section) == JOB_FAILED and not one.off]
    return sorted({job_type for one in named for job_type in one.job_types})


def condition_of(rule: Rule, found: Found, settings: RuleSettings | None) -> Condition:
    """What a rule says of what it found."""
    return Condition(
        key=f"{rule.name}:{found.what}",
        title=rule.title(found)[:500],
        severity=(settings and settings.severity) or rule.severity,
        job_type=found.job_type,
        subject=found.subject,
        details_text=found.details_text,
    )
