"""What the judge says: one verdict an invariant, with what it looked at and what broke it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that must not be."""

    what: str
    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one invariant came to. `seen`: how much it looked at; `explained`: what it let pass, by reason."""

    name: str
    seen: Mapping[str, float]
    violations: Sequence[Violation] = ()
    explained: Mapping[str, int] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether nothing broke it."""
        return not self.violations

    def line(self) -> str:
        """Say it in one line."""
        seen = ", ".join(f"{_number(value)} {what}" for what, value in self.seen.items())
        passed = ", ".join(f"{count} {why}" for why, count in self.explained.items())
        outcome = "holds" if self.holds else f"BROKEN {len(self.violations)} times"
        return f"{self.name}: {outcome}; {seen}" + (f"; explained: {passed}" if passed else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
