"""Channel `social`: what the site tells those who share it, as OpenGraph and Twitter cards on the home page."""

from __future__ import annotations

from onboarding.crawl import page as html
from onboarding.crawl import urls
from onboarding.crawl.page import Page
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import Facts, Picture


async def look(visit: Visit) -> Found:
    home = visit.read_pages()[0]
    items = html.metas(home, "og:") + html.metas(home, "twitter:")
    if not items:
        return Found(items=0, http_status=200, note="no OpenGraph or Twitter tags on the home page")
    return Found(items=items, facts=facts_of(home), http_status=200)


def facts_of(page: Page) -> Facts:
    """The facts in the page's sharing tags."""
    picture = urls.join(page.base, html.meta(page, "og:image", "og:image:url", "twitter:image"))
    return Facts(
        name=html.meta(page, "og:site_name", "og:title", "twitter:title"),
        description=html.meta(page, "og:description", "twitter:description"),
        pictures=(Picture(url=str(picture), alt=html.meta(page, "og:image:alt")),) if picture else (),
    )
