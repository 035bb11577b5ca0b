"""What is said of an alert to a sink, and when: pure, from what the database knows, by its clock.

Invariant: nothing here is remembered between two looks, so that a restart changes nothing. A sink is never given a
second message of an alert while one is under way: what happens meanwhile is said in the next. An alert whose owner has
no sink goes to every one. What is held back is told in a digest, never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from wakeful.core.alert_settings import SEVERITIES, AlertSettings, RouteSettings, RuleSettings
from wakeful.core.quiet_hours import quiet_hours
from wakeful.store.alerts import Looked, Notice

Saying = Literal["opened", "updated", "reminder", "resolved"]

BY_HAND: Final = "by "  # how the reason begins that `resolve()` stores
SINK_FAILING: Final = "sink_failing"  # the kind of the alert about a sink, which that sink is not told of
LOOK_AGAIN_SECONDS: Final = 10.0
OTHERS_SOON_SECONDS: Final = 120.0
OTHERS_SECONDS: Final = 60.0
_DEFAULT_ROUTE: Final = RouteSettings()


@dataclass(frozen=True, slots=True)
class Say:
    """Make this message now; look again at `again`, if ever."""

    what: Saying
    again: datetime | None


@dataclass(frozen=True, slots=True)
class Gather:
    """Tell it in the digest that is made now; look again at `again`, if ever."""

    what: Saying
    again: datetime | None


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep it for the digest that is made at `until`."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be said now; look again at `until` (None: never, if nothing happens)."""

    until: datetime | None


Decision = Say | Gather | Hold | Wait
DONE: Final = Wait(None)


@dataclass(slots=True, kw_only=True)
class Brake:
    """The storm brake of one sink within a transaction: `cards` made in the window, `waiting` not yet taken."""

    window_from: datetime
    cards: int
    waiting: int

    def take(self, route: RouteSettings, now: datetime) -> datetime | None:
        """Count one card; None where it may be made, else when the next digest is."""
        length = timedelta(seconds=route.window)
        if now >= self.window_from + length:
            self.window_from, self.cards = now, 0
        if route.most and max(self.cards, self.waiting) >= route.most:
            return self.window_from + length
        self.cards += 1
        self.waiting += 1
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings that decide."""

    alerts: AlertSettings = field(default_factory=AlertSettings)
    routes: Mapping[str, RouteSettings] = field(default_factory=dict)
    rules: Mapping[str, RuleSettings] = field(default_factory=dict)

    def route(self, sink: str) -> RouteSettings:
        """What goes to a sink."""
        return self.routes.get(sink, _DEFAULT_ROUTE)

    def rule(self, looked: Looked) -> RuleSettings | None:
        """The settings of the rule that an alert comes from: the most exact that fit."""
        return best_rule(self.rules, looked.kind, queue=looked.queue, job_type=looked.job_type)

    def severity(self, looked: Looked) -> str:
        """How severe an alert is, as the settings say, else as it says itself."""
        rule = self.rule(looked)
        return looked.severity if rule is None or rule.severity is None else rule.severity

    def sinks_for(self, looked: Looked, sinks: Iterable[str]) -> tuple[str, ...]:
        """Those of `sinks` that are to hear of an alert. Never a sink of its own trouble."""
        able = [sink for sink in sinks if looked.kind != SINK_FAILING or sink != looked.subject]
        rule = self.rule(looked)
        if rule is not None and rule.off:
            return ()
        named = () if rule is None else tuple(sink for sink in able if sink in rule.sinks)
        if named:
            return named
        severity = rank(self.severity(looked))
        takers = [sink for sink in able if _is_owned(self.route(sink), looked)]
        if not any(self.route(sink).after == 0 for sink in takers):
            takers = able
        return tuple(sink for sink in takers if severity >= rank(self.route(sink).severity))


def best_rule(
    rules: Mapping[str, RuleSettings], name: str, *, queue: str | None, job_type: str | None
) -> RuleSettings | None:
    """Give the settings of rule `name` that fit: the one that names most of queue and job type, else None."""
    fitting = [
        rule
        for section, rule in rules.items()
        if (rule.rule or section) == name
        and (not rule.queues or queue in rule.queues)
        and (not rule.job_types or job_type in rule.job_types)
    ]
    return max(fitting, key=lambda rule: bool(rule.queues) + bool(rule.job_types), default=None)


def _is_owned(route: RouteSettings, looked: Looked) -> bool:
    return "*" in route.owners or (looked.job_owner or "-") in route.owners


def rank(severity: str) -> int:
    """How severe: 0 is info."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def decide(policy: Policy, looked: Looked, sink: str, notice: Notice | None, brake: Brake) -> Decision:
    """Decide what becomes of an alert at one sink that is to hear of it."""
    what, at = _next_saying(policy, looked, policy.route(sink), notice)
    if what is None:
        return Wait(at)
    now = looked.now
    if notice is not None and notice.pending:
        return Wait(now + timedelta(seconds=min(LOOK_AGAIN_SECONDS, max(policy.alerts.updates, 0.1))))
    quiet = _quiet_until(policy, looked, policy.route(sink))
    if quiet is not None:
        return Wait(quiet)
    if at is not None and at > now:
        return Wait(at)
    return _now(policy, looked, policy.route(sink), notice, brake, what)


def plain_decision(looked: Looked, notice: Notice | None) -> Decision:
    """Decide of an alert of which the settings can decide nothing: that it began is told, and that it is over."""
    if notice is not None and notice.pending:
        return Wait(looked.now + timedelta(seconds=LOOK_AGAIN_SECONDS))
    over = looked.state == "resolved"
    if notice is None or notice.told_as is None:
        return Say("opened", looked.now if over else None)
    return Say("resolved", None) if over and notice.told_as != "resolved" else Wait(None)


def for_others(looked: Looked) -> datetime | None:
    """Give when an alert is looked at again for the sake of instances with other sinks; None: they have had the time.

    Whoever looks at it decides for its own sinks alone, so that all of them must come to look.
    """
    changed = max(looked.opened_at, looked.last_seen, looked.resolved_at or looked.opened_at)
    if looked.now - changed < timedelta(seconds=OTHERS_SOON_SECONDS):
        return looked.now + timedelta(seconds=OTHERS_SOON_SECONDS / 24)
    return None if looked.state == "resolved" else looked.now + timedelta(seconds=OTHERS_SECONDS)


def _now(
    policy: Policy, looked: Looked, route: RouteSettings, notice: Notice | None, brake: Brake, what: Saying
) -> Decision:
    """Decide how something is said that is due: by itself, in the digest that is due, or in a later one."""
    now = looked.now
    if notice is not None and notice.held_until is not None:
        if notice.held_until > now:
            return Hold(notice.held_until)
        over = looked.state == "resolved"
        return Gather("resolved" if over else what, None if over else _later(policy, now))
    if route.digest != "off" and rank(policy.severity(looked)) <= rank(route.digest):
        return Hold(_next_digest(now, route.digest_every))
    braked = brake.take(route, now)
    if braked is not None:
        return Hold(braked)
    if what == "resolved":
        return Say(what, None)
    # What has ended already is said to have ended as soon as this is delivered.
    return Say(what, now if looked.state == "resolved" else _later(policy, now))


def _later(policy: Policy, now: datetime) -> datetime:
    return now + timedelta(seconds=policy.alerts.repeats)


def _next_saying(
    policy: Policy, looked: Looked, route: RouteSettings, notice: Notice | None
) -> tuple[Saying | None, datetime | None]:
    """Give what there is to say next, and from when on; None for what: nothing before that time (None: ever)."""
    told_at = None if notice is None else notice.told_at
    if notice is None or told_at is None:
        return _first_saying(policy, looked, route, notice)
    if notice.told_as == "resolved":
        return None, None
    if looked.state == "resolved":
        return "resolved", None
    if looked.state == "acknowledged":
        return None, None
    if looked.occurrences > notice.occurrences:
        return "updated", told_at + timedelta(seconds=policy.alerts.updates)
    repeat = told_at + timedelta(seconds=policy.alerts.repeats)
    return ("reminder", repeat) if repeat <= looked.now else (None, repeat)


def _first_saying(
    policy: Policy, looked: Looked, route: RouteSettings, notice: Notice | None
) -> tuple[Saying | None, datetime | None]:
    held = notice is not None and notice.held_until is not None
    if looked.state == "resolved" and _is_over_unheard(looked, route) and not held:
        return None, None
    if looked.state == "acknowledged" and not held:
        return None, None
    return "opened", looked.opened_at + timedelta(seconds=max(policy.alerts.first_wait, route.after))


def _is_over_unheard(looked: Looked, route: RouteSettings) -> bool:
    """Whether nothing is said of an alert that is over, where it was not said before that it had begun.

    A death that nobody has heard of is told, however late; not one that somebody took on or ended by hand meanwhile.
    """
    by_hand = looked.acknowledged or (looked.resolved_reason or "").startswith(BY_HAND)
    return by_hand or looked.lasting or route.after > 0 or looked.muted_until is not None


def _quiet_until(policy: Policy, looked: Looked, route: RouteSettings) -> datetime | None:
    """Give until when nothing is said: for a mute, or for the quiet hours of a sink."""
    if looked.muted_until is not None:
        return looked.muted_until
    if route.quiet_hours is None or policy.severity(looked) == "critical":
        return None
    return quiet_hours(route.quiet_hours, route.zone).over_at(looked.now)


def _next_digest(now: datetime, every: float) -> datetime:
    """Give the next full `every` seconds of the clock, at which all that waits is told together."""
    return now + timedelta(seconds=every - math.fmod(now.timestamp(), every))
