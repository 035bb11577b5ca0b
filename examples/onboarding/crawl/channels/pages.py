"""Channel `pages`: the home page and the pages that it and the sitemap lead to, one after the other.

Invariant: it stops at the limits of the visit and at the first 429; what other channels look for (contact, menu, feed)
is left to them. The home page failing is the channel's failure, any other page's only a note.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Final

import anyio
from yarl import URL

from onboarding.crawl import page as html
from onboarding.crawl import urls
from onboarding.crawl.page import Page
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import Facts, Section, merge

CONTACT: Final = re.compile(r"contact|kontakt|impressum|imprint|find-us|visit-us", re.IGNORECASE)
MENU: Final = re.compile(r"menu|speisekarte|price|preis|tariff", re.IGNORECASE)
_OTHER_FILE: Final = re.compile(
    r"\.(?:jpe?g|png|gif|webp|svg|ico|css|js|pdf|zip|xml|json|csv|vcf|mp[34]|rss|atom|webmanifest)$",
    re.IGNORECASE,
)


async def look(visit: Visit) -> Found:
    visit.pages.append(await visit.open_page(visit.site))
    waiting = deque(_frontier(visit))
    seen = {_key(visit.site), _key(visit.pages[0].url)}
    notes: list[str] = []
    with anyio.move_on_after(visit.settings.crawl_time) as clock:
        while waiting and not notes and _within_limits(visit, seen):
            await _read_next(visit, waiting, seen=seen, notes=notes)
    if clock.cancelled_caught:
        notes.append(f"stopped after {visit.settings.crawl_time:g} s")
    return Found(
        items=len(visit.pages), facts=facts_of(visit.pages), http_status=200, note="; ".join(notes) or None
    )


async def _read_next(visit: Visit, waiting: deque[URL], *, seen: set[str], notes: list[str]) -> None:
    url = waiting.popleft()
    if _key(url) in seen or not _is_page(url, visit.site):
        return
    seen.add(_key(url))
    await visit.report(
        100.0 * len(visit.pages) / visit.settings.max_pages, f"page {len(visit.pages) + 1}: {url.path}"
    )
    try:
        page = await visit.open_page(url)
    except ChannelTrouble as trouble:
        if trouble.kind == "rate_limited":
            notes.append(f"stopped after {len(visit.pages)} pages ({trouble})")
        return
    if _key(page.url) not in seen or _key(page.url) == _key(url):
        seen.add(_key(page.url))
        visit.pages.append(page)
        waiting.extend(link.url for link in html.links(page))


def facts_of(pages: list[Page]) -> Facts:
    """What the pages say, the home page first."""
    return merge([_home_facts(pages[0]), Facts(sections=tuple(_sections(pages)))])


def _home_facts(page: Page) -> Facts:
    return Facts(
        name=html.first_text(page, "h1") or html.title(page),
        description=html.meta(page, "description") or html.opening_text(page),
        language=html.language(page),
    )


def _sections(pages: list[Page]) -> Iterator[Section]:
    for page in pages:
        title, text = html.first_text(page, "h1") or html.title(page), html.opening_text(page)
        if title or text:
            yield Section(url=str(page.url), title=title, text=text)


def _within_limits(visit: Visit, seen: set[str]) -> bool:
    """Pages that fail count too, or a site of dead links would be asked for every one of them."""
    most = visit.settings.max_pages
    return len(visit.pages) < most and len(seen) < 2 * most


def _frontier(visit: Visit) -> list[URL]:
    return [*visit.listed, *(link.url for link in html.links(visit.pages[0]))]


def _is_page(url: URL, site: URL) -> bool:
    path = url.path
    return urls.same_site(url, site) and not (
        _OTHER_FILE.search(path) or CONTACT.search(path) or MENU.search(path)
    )


def _key(url: URL) -> str:
    """One page under one key, whether its address ends with a slash or not."""
    return str(url.with_scheme("https")).removesuffix("/")
