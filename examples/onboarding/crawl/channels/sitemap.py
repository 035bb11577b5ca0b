"""Channel `sitemap`: the pages that the site lists for crawlers, after sitemaps.org; an index is followed one level."""

from __future__ import annotations

import zlib
from typing import Final
from xml.etree.ElementTree import Element

from yarl import URL

from onboarding.crawl import urls
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.crawl.xmltext import child_text, parse_xml

MOST_FILES: Final = 4
MOST_PAGES: Final = 500
_TYPES: Final = ("text/", "application/")


async def look(visit: Visit) -> Found:
    waiting = list(visit.sitemaps) or [visit.site.origin() / "sitemap.xml"]
    for _ in range(MOST_FILES):
        if waiting:
            waiting.extend(await _read_file(visit, waiting.pop(0)))
    if not visit.listed:
        return Found(
            items=0, http_status=None if visit.sitemaps else 404, note="no sitemap that lists a page"
        )
    return Found(items=len(visit.listed), http_status=200)


async def _read_file(visit: Visit, url: URL) -> list[URL]:
    """Add the pages of one file to the visit; what an index lists comes back."""
    try:
        reply = await visit.open_file(url, *_TYPES)
    except ChannelTrouble as trouble:
        if trouble.http_status == 404 and not visit.sitemaps:
            return []
        raise
    root = parse_xml(unpack(reply.body, visit.settings.max_page_bytes))
    locations = [location for text in entries(root) if (location := urls.join(url, text))]
    if root.tag == "sitemapindex":
        return locations
    visit.listed.extend(location for location in locations if urls.same_site(location, visit.site))
    return []


def entries(root: Element) -> list[str]:
    """The addresses that a `urlset` or `sitemapindex` lists. Raises ChannelTrouble for any other document."""
    if root.tag not in ("urlset", "sitemapindex"):
        raise ChannelTrouble("bad_markup", f"the sitemap is a <{root.tag[:40]}>")
    texts = (child_text(child, "loc").strip() for child in list(root)[:MOST_PAGES])
    return [text for text in texts if text]


def unpack(body: bytes, max_bytes: int) -> bytes:
    """Undo gzip, as in `sitemap.xml.gz`, up to `max_bytes`. Raises ChannelTrouble for what is broken or larger."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(body, max_bytes)
    except zlib.error as error:
        raise ChannelTrouble("bad_markup", f"the sitemap is no gzip file: {error}") from error
    if unpacker.unconsumed_tail:
        raise ChannelTrouble("too_large", f"the sitemap has more than {max_bytes} bytes", http_status=200)
    return content
