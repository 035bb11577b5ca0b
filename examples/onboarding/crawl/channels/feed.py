"""Channel `feed`: the latest news, from the RSS or Atom feed that the pages name."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final
from xml.etree.ElementTree import Element

from yarl import URL

from onboarding.crawl import urls
from onboarding.crawl.page import Link
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.crawl.xmltext import child_text, parse_xml
from onboarding.facts import Facts, News, clean

MOST_ENTRIES: Final = 20
_FEED_TYPES: Final = ("application/rss+xml", "application/atom+xml")
_ANY_TEXT: Final = ("text/", "application/")


async def look(visit: Visit) -> Found:
    feed = next((link.url for link in visit.links() if _is_feed(link)), None)
    if feed is None:
        return Found(items=0, note="the pages name no feed")
    reply = await visit.open_file(feed, *_ANY_TEXT)
    news = entries(parse_xml(reply.body), reply.url)
    return Found(
        items=len(news), facts=Facts(news=news), http_status=200, note=None if news else "the feed is empty"
    )


def entries(root: Element, base: URL) -> tuple[News, ...]:
    """The entries of an RSS (0.9x, 1.0, 2.0) or Atom feed. Raises ChannelTrouble for any other document."""
    if root.tag not in ("rss", "RDF", "feed"):
        raise ChannelTrouble("bad_markup", f"the feed is a <{root.tag[:40]}>")
    found = root.iter("entry" if root.tag == "feed" else "item")
    return tuple(_entry(element, base) for _, element in zip(range(MOST_ENTRIES), found, strict=False))


def _entry(element: Element, base: URL) -> News:
    link = element.find("link")
    reference = child_text(element, "link") or (link.get("href", "") if link is not None else "")
    return News(
        title=clean(child_text(element, "title")),
        url=str(urls.join(base, reference) or ""),
        date=short_date(child_text(element, "pubDate", "published", "updated", "date")),
    )


def short_date(text: str) -> str:
    """A feed's date as YYYY-MM-DD; as it was written where it is neither RFC 822 nor ISO 8601."""
    written = clean(text, 60)
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError, OverflowError):
            return parse(written).date().isoformat()
    return written


def _is_feed(link: Link) -> bool:
    return "alternate" in link.rel.split() and link.type.startswith(_FEED_TYPES)
