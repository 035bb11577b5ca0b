"""What values the sections alerts, routes and rules may not have together: part of `core.rules`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from wakeful.core.quiet_hours import quiet_hours
from wakeful.core.settings import Settings

DEFAULT_SINK: Final = "log"  # the one that there is without any in the configuration


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
    for name, rule in settings.rules.items():
        for sink in rule.sinks:
            if sink not in known:
                yield (f"rules.{name}.sinks",), f"there is no sink {sink}"


def _alerts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    address = settings.alerts.public_url
    if address is None:
        return
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        yield ("alerts.public_url",), 'must be an address that begins with "https://" or "http://"'
