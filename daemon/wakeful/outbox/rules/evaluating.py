"""Evaluates the rules: what holds becomes or stays an alert, what has ended is resolved.

Invariant: right at any number of instances at once, with the same settings or not: an alert is opened once, each says
only that it still holds, and it ends when it holds for none. One rule that fails stops no other, and ends nothing. In
an idle database a look costs one statement. However much is wrong, a rule has `MOST` alerts and one for the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import anyio

from wakeful.core import jsontext
from wakeful.core.alert_rules import DEFAULT_SINK
from wakeful.core.alert_settings import RuleSettings
from wakeful.core.settings import Settings
from wakeful.errors import StoreBusy, StoreError, StoreUnavailable
from wakeful.outbox.policy import best_rule, rank
from wakeful.outbox.rules import long_transaction
from wakeful.outbox.rules.rule import SETTLE_SECONDS, Rule
from wakeful.store import conditions
from wakeful.store.conditions import Condition, Found, Sight
from wakeful.store.database import Database
from wakeful.store.instances import Registration
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_OPENED, ALERT_RESOLVED, RULE_FAILED

JOB_FAILED: Final = "job_failed"
MOST: Final = 200  # alerts of one rule: beyond that nobody reads them one by one
_KEY_LIMIT: Final = 900  # bytes: what an index takes has a bound
_EVERY_RULE: Final = "every rule"

Held = tuple[Found, RuleSettings | None]  # what holds, and by which settings


@dataclass(frozen=True, kw_only=True)
class Evaluating:
    """Rules and how they are set."""

    database: Database
    telemetry: Telemetry
    rules: Sequence[Rule]
    settings: Mapping[str, RuleSettings] = field(default_factory=dict)
    settle: float = SETTLE_SECONDS

    async def evaluate(self, stop: anyio.Event) -> None:
        """Look at everything once, until `stop` is set. Raises StoreUnavailable in an outage."""
        sight = await self._look()
        failed = set[str]()
        for rule in self.rules:
            if stop.is_set():
                return
            try:
                if rule.name not in sight.idle:
                    await self._hold(rule, sight.keys)
            except StoreError as error:
                self._tell(rule.name, error)
                failed.add(rule.name)
        await self._end(sight.kinds - failed)

    async def _look(self) -> Sight:
        """What may be left out; nothing where that can't be said."""
        try:
            sight = await conditions.look(self.database, long_transaction=self._lowest(long_transaction.RULE))
            if sight.critical:
                await conditions.keep_critical(self.database)
        except StoreError as error:
            self._tell(_EVERY_RULE, error)
            return Sight()
        return sight

    async def _hold(self, rule: Rule, known: frozenset[str]) -> None:
        found = await conditions.find(self.database, rule.statement, self._lowest(rule))
        held = [(one, self._set(rule, one)) for one in found if self._holds(rule, one)]
        chosen = bounded(rule, held, known)
        for opened in await conditions.hold(self.database, rule.name, chosen, rules=self.fingerprint):
            self.telemetry.emit(
                ALERT_OPENED,
                alert_id=opened.alert_id,
                kind=opened.kind,
                subject=opened.subject,
                title=opened.title,
            )

    async def _end(self, kinds: frozenset[str]) -> None:
        """Also those of a rule that is not known here: it held by settings of an instance that is gone."""
        if not kinds:
            return
        try:
            over = await conditions.end(self.database, sorted(kinds), self.settle, rules=self.fingerprint)
        except StoreError as error:
            self._tell(_EVERY_RULE, error)
            return
        for ended in over:
            self.telemetry.emit(
                ALERT_RESOLVED, alert_id=ended.alert_id, kind=ended.kind, occurrences=ended.occurrences
            )

    def _tell(self, rule: str, error: StoreError) -> None:
        """Say that a rule could not be evaluated. Raises the error where it is an outage."""
        if isinstance(error, StoreUnavailable) and not isinstance(error, StoreBusy):
            raise error
        self.telemetry.emit(RULE_FAILED, rule=rule, error=str(error))

    @cached_property
    def fingerprint(self) -> str:
        """By what these rules are told from those of instances that are set differently."""
        return fingerprint_of(self.rules, self.settings)

    def _lowest(self, rule: Rule) -> float:
        """The lowest threshold for whatever queue and job type: the statement finds all that may be beyond its own."""
        named = [one for one in _about(self.settings, rule.name) if not one.off]
        return min([rule.threshold, *(rule.threshold_of(one) for one in named)])

    def _set(self, rule: Rule, found: Found) -> RuleSettings | None:
        return best_rule(self.settings, rule.name, queue=found.queue, job_type=found.job_type)

    def _holds(self, rule: Rule, found: Found) -> bool:
        settings = self._set(rule, found)
        if rule.sums and found.job_type is not None and (settings is None or not settings.job_types):
            return False  # it is among those of its queue
        return (settings is None or not settings.off) and found.value >= rule.threshold_of(settings)


def fingerprint_of(rules: Iterable[Rule], settings: Mapping[str, RuleSettings]) -> str:
    """Give the hash of rules and how they are set, as instances keep it in the database."""
    text = repr((sorted(rule.name for rule in rules), sorted(settings.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def with_rules(registration: Registration, settings: Settings, rules: Iterable[Rule]) -> Registration:
    """Let an instance say which sinks, critical types and rules its settings have: all of those alive count."""
    return replace(
        registration,
        sinks=tuple(settings.sinks) or (DEFAULT_SINK,),
        critical_types=critical_types(settings.rules),
        rules=fingerprint_of(rules, settings.rules),
    )


def critical_types(settings: Mapping[str, RuleSettings]) -> list[str]:
    """Give the job types of which the first failed attempt is told: those that the rule job_failed names."""
    named = [one for one in _about(settings, JOB_FAILED) if not one.off]
    return sorted({job_type for one in named for job_type in one.job_types})


def condition_of(rule: Rule, found: Found, settings: RuleSettings | None) -> Condition:
    """What a rule says of what it found."""
    details = jsontext.loads(found.details_text)
    told = details if isinstance(details, dict) else {}
    return Condition(
        key=key_of(rule, found),
        title=rule.title(found)[:500],
        severity=_severity(rule, settings),
        job_type=found.job_type,
        subject=found.subject,
        details_text=jsontext.dumps({**told, "advice": rule.advice}),
    )


def key_of(rule: Rule, found: Found) -> str:
    """The key of an alert about what was found: one that an index takes, whatever it was made of."""
    key = f"{rule.name}:{found.what}"
    whole = key.encode()
    if len(whole) <= _KEY_LIMIT:
        return key
    return f"{whole[:_KEY_LIMIT].decode(errors='ignore')}:{hashlib.sha256(whole).hexdigest()[:16]}"


def bounded(rule: Rule, held: Iterable[Held], known: frozenset[str]) -> list[Condition]:
    """Give a condition for each key; of many those that have an alert, then the first, and the rest as one."""
    by_key: dict[str, Held] = {}
    for found, settings in held:
        before = by_key.setdefault(key_of(rule, found), (found, settings))
        if rank(_severity(rule, settings)) > rank(_severity(rule, before[1])):
            by_key[key_of(rule, found)] = (found, settings)
    keys = sorted(by_key, key=lambda key: key not in known)
    told = [condition_of(rule, *by_key[key]) for key in keys[:MOST]]
    return told if len(keys) <= MOST else [*told, _rest(rule, [by_key[key] for key in keys[MOST:]])]


def _rest(rule: Rule, held: Sequence[Held]) -> Condition:
    """What a rule says of all that is too much to be told one by one."""
    found, settings = max(held, key=lambda one: rank(_severity(rule, one[1])))
    return Condition(
        key=f"{rule.name}:*",
        title=f"{len(held)} more of {rule.name}, such as: {rule.title(found)}"[:500],
        severity=_severity(rule, settings),
        job_type=None,
        subject=None,
        details_text=jsontext.dumps({"more": len(held), "advice": rule.advice}),
    )


def _severity(rule: Rule, settings: RuleSettings | None) -> str:
    return (settings and settings.severity) or rule.severity


def _about(settings: Mapping[str, RuleSettings], name: str) -> list[RuleSettings]:
    return [one for section, one in settings.items() if (one.rule or section) == name]
