"""What the channels of one visit share: the site, the road to the network, and the pages that were read.

Invariant: only `pages` adds to `pages`, only `robots` and `sitemap` to `sitemaps` and `listed`; they run before the
channels that read them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from yarl import URL

from onboarding.crawl import page as pages
from onboarding.crawl.fetch import Fetcher, Reply, Want
from onboarding.crawl.page import Link, Page, read_page
from onboarding.crawl.trouble import Skipped
from onboarding.facts import Facts
from onboarding.settings import CrawlSettings

_HTML: Final = ("text/html", "application/xhtml+xml")

Report = Callable[[float, str], Awaitable[None]]
"""Told how far a long channel is: percent and a line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a channel gave. `items` counts what it lists; with none the channel was empty, and `note` says of what."""

    items: int
    facts: Facts = field(default_factory=Facts)
    http_status: int | None = None
    note: str | None = None


@dataclass(slots=True, kw_only=True)
class Visit:
    """One visit to one site."""

    site: URL
    fetcher: Fetcher
    settings: CrawlSettings
    report: Report
    sitemaps: list[URL] = field(default_factory=list)
    listed: list[URL] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    async def open_page(self, url: URL) -> Page:
        """Fetch and parse an HTML page. Raises ChannelTrouble."""
        return read_page(
            await self.fetcher.get(url, Want(types=_HTML, max_bytes=self.settings.max_page_bytes))
        )

    async def open_file(self, url: URL, *types: str) -> Reply:
        """Fetch what is not a page: a feed, a card, a list. Raises ChannelTrouble."""
        return await self.fetcher.get(url, Want(types=types, max_bytes=self.settings.max_page_bytes))

    def read_pages(self) -> list[Page]:
        """The pages that were read. Raises Skipped when there are none, because then nothing can be looked for."""
        if not self.pages:
            raise Skipped("no page could be read")
        return self.pages

    def links(self) -> Iterator[Link]:
        """The links of all pages that were read, the home page's first. Raises Skipped when there are none."""
        for page in self.read_pages():
            yield from pages.links(page)
