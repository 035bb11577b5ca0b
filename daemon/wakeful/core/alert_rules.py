"""What values the sections alerts, routes and rules may not have together: part of `core.rules`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from wakeful.core.alert_settings import RuleSettings
from wakeful.core.durations import format_duration
from wakeful.core.names import did_you_mean
from wakeful.core.quiet_hours import quiet_hours
from wakeful.core.settings import Settings
from wakeful.core.sink_rules import is_address

LEAST_STANDSTILL_SECONDS: Final = 0.5  # a shorter one, of a loop or between two clocks, is not noted
DEFAULT_SINK: Final = "log"  # the one that there is without any in the configuration

_KIND: Final = re.compile(r"[a-z][a-z0-9_.]{0,99}", re.ASCII)  # as wakeful.alert() takes it
_TYPING_ERROR: Final = 0.9  # so like a rule's name is nobody's own kind
_NEVER_IN_ADDRESSES: Final = re.compile(r"""[\s\x00-\x1f\x7f-\x9f<>"\\^`{|}]""")
_JOBS: Final = frozenset({"queues", "job_types"})
# What each rule can go by: its threshold, a time or a number, and what narrows it down. Kinds that are not named here
# are people's own: they go by their queue, where their body names one, and their job type.
TAKES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "job_dead": _JOBS,
        "job_failed": frozenset({"job_types"}),
        "never_finishes": _JOBS,
        "queue_stalled": _JOBS | {"over"},
        "no_worker": _JOBS | {"over"},
        "dead_rate": _JOBS | {"least"},
        "rescues": _JOBS | {"least"},
        "overrun": _JOBS | {"over"},
        "long_transaction": frozenset({"over"}),
        "sink_failing": frozenset({"over"}),
        "loop_blocked": frozenset({"over"}),
        "listener_down": frozenset({"over"}),
        "clock_skew": frozenset({"over"}),
    }
)
# What only Wakeful makes alerts of: wakeful.alert() refuses them, and dedupe keys that begin with one and a colon.
RESERVED_KINDS: Final = frozenset(TAKES) | {"digest", "test"}
_NOTED_FROM: Final = frozenset({"loop_blocked", "clock_skew"})


def alert_problems(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Give what is wrong: the settings that it is about, the first one named, and the text."""
    known = frozenset(settings.sinks) or frozenset({DEFAULT_SINK})
    yield from _alerts(settings)
    for name, route in settings.routes.items():
        path = f"routes.{name}"
        if name not in known:
            yield (path,), f"there is no sink {name}: a route bears the name of its sink"
        if not route.owners:
            yield (f"{path}.owners",), 'is empty: name owners, "*" for all, or "-" for what has no owner'
        if route.quiet_hours is not None:
            try:
                quiet_hours(route.quiet_hours, route.zone)
            except ValueError as problem:
                yield (f"{path}.quiet_hours", f"{path}.zone"), str(problem)
    yield from _told_twice(settings.rules)
    for name, rule in settings.rules.items():
        yield from _rule(f"rules.{name}", rule, rule.rule or name)
        for sink in rule.sinks:
            if sink not in known:
                yield (f"rules.{name}.sinks",), f"there is no sink {sink}"


def _rule(path: str, rule: RuleSettings, kind: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """A rule takes what it can go by and nothing else: people would believe that any other setting does something."""
    takes = TAKES.get(kind)
    if takes is None and rule.over is None and rule.least is None:
        yield from _kind(f"{path}.rule" if rule.rule else path, kind)
    for name, given in (("over", rule.over is not None), ("least", rule.least is not None)):
        if given and takes is None:
            hint = did_you_mean(kind, tuple(TAKES))
            yield (f"{path}.{name}",), f"{kind} is no rule of Wakeful's, and has no threshold{hint}"
        elif given and takes is not None and name not in takes:
            yield (f"{path}.{name}",), f"the rule {kind} does not take it: {_taken(takes)}"
    for name, given in (("queues", bool(rule.queues)), ("job_types", bool(rule.job_types))):
        if given and takes is not None and name not in takes:
            yield (f"{path}.{name}",), f"the rule {kind} does not take it: {_taken(takes)}"
    if kind in _NOTED_FROM and rule.over is not None and rule.over < LEAST_STANDSTILL_SECONDS:
        least = format_duration(LEAST_STANDSTILL_SECONDS)
        yield (f"{path}.over",), f"the rule {kind} sees nothing that is less than {least}"


def _told_twice(rules: Mapping[str, RuleSettings]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Of two sections about the same, one would count for nothing."""
    before: dict[tuple[str, frozenset[str], frozenset[str]], str] = {}
    for name, rule in rules.items():
        first = before.setdefault(
            (rule.rule or name, frozenset(rule.queues), frozenset(rule.job_types)), name
        )
        if first != name:
            yield (f"rules.{name}",), f"is about the same as rules.{first}: put both into one"


def _kind(path: str, kind: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """A name that is nearly a rule's, or that no alert can have, would be about nothing."""
    meant = get_close_matches(kind, TAKES, n=1, cutoff=_TYPING_ERROR)
    if meant:
        yield (path,), f"there is no rule {kind}, did you mean {meant[0]!r}?"
    elif not _KIND.fullmatch(kind):
        yield (path,), f'{kind!r} is neither a rule nor the kind of any alert: say which by rule = "…"'


def _taken(takes: frozenset[str]) -> str:
    return (
        f"it takes {', '.join(sorted(takes))}"
        if takes
        else "it is about no queue, no job type and no threshold"
    )


def _alerts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    address = settings.alerts.public_url
    if address is None:
        return
    if not is_address(address, ("http", "https")):
        yield ("alerts.public_url",), 'must be an address that begins with "https://" or "http://"'
    elif "?" in address or "#" in address or "@" in urlsplit(address).netloc:
        yield ("alerts.public_url",), "has no user, no query and no fragment: paths are added at its end"
    elif _NEVER_IN_ADDRESSES.search(address):
        yield ("alerts.public_url",), "has a character that no address has: cards would have links to nowhere"
