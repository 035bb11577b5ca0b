"""A whole visit: every channel in turn, each with its line in the result, and the facts of all of them joined.

Invariant: a channel's trouble is data. Only a survey without a single fact is a failure; `rate_limit` and
`may_pass` say of which kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal

import anyio

from onboarding.crawl.channels import (
    contact,
    feed,
    images,
    manifest,
    menu,
    pages,
    robots,
    sitemap,
    social,
    structured,
)
from onboarding.crawl.trouble import PASSING, ChannelTrouble, Kind, Skipped
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import Facts, clean, merge

Look = Callable[[Visit], Awaitable[Found]]
Status = Literal["ok", "empty", "skipped", "failed"]

LONGEST_REASON: Final = 300

CHANNELS: Final[Mapping[str, Look]] = {
    "robots": robots.look,
    "sitemap": sitemap.look,
    "pages": pages.look,
    "structured_data": structured.look,
    "social": social.look,
    "contact": contact.look,
    "feed": feed.look,
    "menu": menu.look,
    "manifest": manifest.look,
    "images": images.look,
}
FIRST: Final = ("robots", "sitemap", "pages")
"""These run one after the other, for the rest to build on; the rest run side by side."""

TRUST: Final = (
    "structured_data",
    "contact",
    "menu",
    "social",
    "manifest",
    "feed",
    "pages",
    "images",
    "sitemap",
    "robots",
)
"""Whose word on a fact is taken when several channels know it, the most trusted first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelReport:
    """One line of `result.channels`: `http_status` is the last answer's, `duration_ms` the whole channel's."""

    channel: str
    status: Status
    reason: str | None = None
    http_status: int | None = None
    items: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a visit gave: a line for each channel, in their fixed order, and the facts."""

    channels: tuple[ChannelReport, ...]
    facts: Facts
    troubles: Mapping[str, ChannelTrouble] = field(default_factory=dict)

    def documents(self) -> list[dict[str, object]]:
        """The lines as JSON objects."""
        return [asdict(channel) for channel in self.channels]

    @property
    def summary(self) -> str:
        """The channels that gave nothing, for a message to people."""
        lines = (
            f"{line.channel}: {line.reason}" for line in self.channels if line.status in ("failed", "skipped")
        )
        return "; ".join(lines) or "every channel was empty"

    @property
    def rate_limit(self) -> float | None:
        """Seconds to wait when a 429 is what stood between us and the facts; 60 where the site did not say."""
        limited = [trouble for trouble in self.troubles.values() if trouble.kind == "rate_limited"]
        return max(trouble.retry_after or 60.0 for trouble in limited) if limited else None

    @property
    def may_pass(self) -> bool:
        """Whether another attempt could find what this one did not."""
        kinds: set[Kind] = {trouble.kind for trouble in self.troubles.values()}
        server_errors = any((line.http_status or 0) >= 500 for line in self.channels)
        return bool(kinds & PASSING) or server_errors


@dataclass(slots=True)
class _Ledger:
    """Gathers what the channels gave while they run."""

    reports: dict[str, ChannelReport] = field(default_factory=dict)
    fragments: dict[str, Facts] = field(default_factory=dict)
    troubles: dict[str, ChannelTrouble] = field(default_factory=dict)

    async def run(self, name: str, visit: Visit) -> None:
        """Look through one channel and note its outcome."""
        started = anyio.current_time()
        report = await self._outcome(name, visit)
        spent = round((anyio.current_time() - started) * 1000)
        self.reports[name] = replace(report, duration_ms=spent)

    async def _outcome(self, name: str, visit: Visit) -> ChannelReport:
        try:
            found = await _within_time(name, visit)
        except Skipped as skipped:
            return ChannelReport(channel=name, status="skipped", reason=_reason(skipped))
        except ChannelTrouble as trouble:
            self.troubles[name] = trouble
            status: Status = "skipped" if trouble.kind == "robots" else "failed"
            return ChannelReport(
                channel=name, status=status, reason=_reason(trouble), http_status=trouble.http_status
            )
        self.fragments[name] = found.facts
        return ChannelReport(
            channel=name,
            status="ok" if found.items else "empty",
            reason=None if found.note is None else clean(found.note, LONGEST_REASON),
            http_status=found.http_status,
            items=found.items,
        )

    def survey(self) -> Survey:
        fragments = (self.fragments[name] for name in TRUST if name in self.fragments)
        return Survey(
            channels=tuple(self.reports[name] for name in CHANNELS),
            facts=merge(fragments),
            troubles=self.troubles,
        )


async def survey(visit: Visit) -> Survey:
    """Look through all channels of a site. Never raises for what the site does."""
    ledger = _Ledger()
    for name in FIRST:
        await visit.report(0.0, f"channel {name}")
        await ledger.run(name, visit)
    async with anyio.create_task_group() as group:
        for name in CHANNELS:
            if name not in FIRST:
                group.start_soon(ledger.run, name, visit)
    return ledger.survey()


async def _within_time(name: str, visit: Visit) -> Found:
    """Bound what many slow hosts can add up to. Every TimeoutError of a request is a ChannelTrouble already."""
    limit = visit.settings.channel_time + (visit.settings.crawl_time if name == "pages" else 0.0)
    try:
        with anyio.fail_after(limit):
            return await CHANNELS[name](visit)
    except TimeoutError:
        raise ChannelTrouble("timeout", f"the channel took more than {limit:g} s") from None


def _reason(trouble: Exception) -> str:
    return clean(str(trouble), LONGEST_REASON)
