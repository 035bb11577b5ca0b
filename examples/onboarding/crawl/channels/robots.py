"""Channel `robots`: the site's robots.txt, which says what may be read and where the sitemaps are."""

from __future__ import annotations

from onboarding.crawl import urls
from onboarding.crawl.visit import Found, Visit


async def look(visit: Visit) -> Found:
    robots = await visit.fetcher.robots(visit.site)
    if robots.trouble is not None:
        raise robots.trouble
    if robots.rules is None:
        return Found(items=0, http_status=robots.http_status, note="no robots.txt, so all may be read")
    found = (urls.join(visit.site, address) for address in robots.sitemaps)
    visit.sitemaps.extend(url for url in found if url is not None)
    return Found(items=robots.lines, http_status=robots.http_status)
