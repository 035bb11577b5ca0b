"""Channel `images`: which pictures the pages show. VISION fetches them; here only what may be fetched is sorted out."""

from __future__ import annotations

import re
from typing import Final

from yarl import URL

from onboarding.crawl import page as html
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import Facts, Picture

_NO_PHOTO: Final = re.compile(r"\.(?:svg|ico)$|sprite|pixel|spacer", re.IGNORECASE)


async def look(visit: Visit) -> Found:
    shown = dict.fromkeys(picture for page in visit.read_pages() for picture in html.pictures(page))
    candidates = [picture for picture in shown if not _NO_PHOTO.search(URL(picture.url).path)]
    allowed: list[Picture] = []
    refused: list[ChannelTrouble] = []
    for picture in candidates[: 2 * visit.settings.max_images]:
        refusal = await visit.fetcher.refusal(URL(picture.url))
        if refusal is None:
            allowed.append(picture)
        else:
            refused.append(refusal)
    if refused and not allowed:
        raise refused[0]
    return _found(allowed[: visit.settings.max_images], len(refused))


def _found(allowed: list[Picture], refused: int) -> Found:
    note = (
        f"{refused} more must not be fetched" if refused else None if allowed else "the pages show no picture"
    )
    return Found(items=len(allowed), facts=Facts(pictures=tuple(allowed)), http_status=200, note=note)
