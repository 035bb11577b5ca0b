"""What a rule is: a statement that finds what is wrong, a threshold, and the words for it.

Invariant: a rule decides nothing about sinks or times; what it finds is an alert while it holds, and has ended when it
has not held for `settle` seconds, so that what comes and goes is one alert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wakeful.core.alert_settings import RuleSettings, Severity
from wakeful.store.conditions import Found

SETTLE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule. Its threshold is `over` seconds or `least` of something; `statement` gets the lowest that is set.

    `title` words what was found, `advice` says what to do; `example` is what it may find, for people who want to see a
    card. `sums`: it finds a queue and, beside it, each job type of it, which counts where settings name the type.
    """

    name: str
    summary: str
    severity: Severity
    statement: str
    title: Callable[[Found], str]
    example: Found
    advice: str
    sums: bool = False
    over: float | None = None
    least: int | None = None

    @property
    def threshold(self) -> float:
        """The threshold where nothing else is configured."""
        return float(self.over if self.over is not None else self.least or 0)

    def threshold_of(self, settings: RuleSettings | None) -> float:
        """The threshold that settings say."""
        if settings is None:
            return self.threshold
        own = settings.over if self.over is not None else settings.least
        return self.threshold if own is None else float(own)
