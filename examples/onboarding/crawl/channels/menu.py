"""Channel `menu`: what is sold and for how much, from the menu or price list that the pages link to.

It may be a CSV file, a JSON list of objects, or a page with a table.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from typing import Final

from yarl import URL

from onboarding.crawl import urls
from onboarding.crawl.channels.pages import MENU
from onboarding.crawl.fetch import Reply
from onboarding.crawl.page import Link, Page, decode, read_page
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import Facts, Offer, clean

MOST_OFFERS: Final = 60
_TYPES: Final = (
    "text/",
    "application/json",
    "application/csv",
    "application/xhtml+xml",
    "application/vnd.ms-excel",
)
_NAMES: Final = ("name", "item", "title", "product", "artikel")
_PRICES: Final = ("price", "preis", "cost", "amount")
_PRICE: Final = re.compile(r"\d")


async def look(visit: Visit) -> Found:
    menu = next((link.url for link in visit.links() if _is_menu(link, visit.site)), None)
    if menu is None:
        return Found(items=0, note="the pages link to no menu or price list")
    offers = tuple(read_offers(await visit.open_file(menu, *_TYPES)))[:MOST_OFFERS]
    note = None if offers else "the menu or price list names nothing"
    return Found(items=len(offers), facts=Facts(offers=offers), http_status=200, note=note)


def read_offers(reply: Reply) -> Iterator[Offer]:
    """The lines of a menu in any of the three forms. Raises ChannelTrouble for what can't be read."""
    if reply.content_type == "application/json":
        yield from _from_json(decode(reply.body, reply.charset))
    elif "html" in reply.content_type:
        yield from _from_table(read_page(reply))
    else:
        yield from _from_csv(decode(reply.body, reply.charset))


def _from_json(text: str) -> Iterator[Offer]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChannelTrouble("bad_markup", f"the price list is no JSON: {clean(str(error))}") from error
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield from _from_record({str(name).lower(): clean(value) for name, value in entry.items()})


def _from_csv(text: str) -> Iterator[Offer]:
    try:
        for record in csv.DictReader(text.splitlines()):
            yield from _from_record(
                {str(name).strip().lower(): clean(value) for name, value in record.items()}
            )
    except csv.Error as error:
        raise ChannelTrouble("bad_markup", f"the price list is no CSV: {clean(str(error))}") from error


def _from_record(record: dict[str, str]) -> Iterator[Offer]:
    name = next((record[key] for key in _NAMES if record.get(key)), "")
    if name:
        yield Offer(name=name, price=next((record[key] for key in _PRICES if record.get(key)), ""))


def _from_table(page: Page) -> Iterator[Offer]:
    for row in page.tree.css("table tr"):
        cells = [clean(cell.text(separator=" ")) for cell in row.css("td")]
        if len(cells) >= 2 and cells[0] and _PRICE.search(cells[-1]):
            yield Offer(name=cells[0], price=cells[-1])


def _is_menu(link: Link, site: URL) -> bool:
    return urls.same_site(link.url, site) and bool(MENU.search(link.url.path) or "menu" in link.rel.split())
