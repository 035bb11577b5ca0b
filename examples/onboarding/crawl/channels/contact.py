"""Channel `contact`: telephone, mail and address, from the contact page, a vCard, and links on any page read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from yarl import URL

from onboarding.crawl import page as html
from onboarding.crawl import urls
from onboarding.crawl.channels.pages import CONTACT
from onboarding.crawl.page import Page, decode
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import Facts, clean, merge

_CARD_TYPES: Final = ("text/", "application/octet-stream")


async def look(visit: Visit) -> Found:
    fragments = [page_facts(page) for page in visit.read_pages()]
    note = None
    try:
        fragments.insert(0, await _read_contact_page(visit))
        fragments.insert(0, await _read_card(visit))
    except ChannelTrouble as trouble:
        note = str(trouble)
        if not merge(fragments).known:
            raise
    facts = merge(fragments)
    return Found(
        items=facts.known, facts=facts, http_status=200, note=note if facts.known else "no contact is given"
    )


async def _read_contact_page(visit: Visit) -> Facts:
    url = next((link.url for link in visit.links() if _is_contact_page(link.url, visit.site)), None)
    return page_facts(await visit.open_page(url)) if url else Facts()


async def _read_card(visit: Visit) -> Facts:
    url = next((link.url for link in visit.links() if _is_card(link.url)), None)
    if url is None:
        return Facts()
    reply = await visit.open_file(url, *_CARD_TYPES)
    return card_facts(decode(reply.body, reply.charset))


def page_facts(page: Page) -> Facts:
    """What the page gives as `tel:` and `mailto:` links and in `<address>`."""
    return Facts(
        phone=next(html.references(page, "tel"), ""),
        email=next(html.references(page, "mailto"), ""),
        address=html.first_text(page, "address"),
    )


def card_facts(text: str) -> Facts:
    """The facts of a vCard (RFC 6350). Raises ChannelTrouble when it is none."""
    lines = _unfold(text)
    if not lines or lines[0].upper() != "BEGIN:VCARD":
        raise ChannelTrouble("bad_markup", "the vCard does not begin with BEGIN:VCARD")
    values = dict(_properties(reversed(lines)))
    return Facts(
        name=clean(values.get("FN") or values.get("ORG", "")),
        phone=clean(values.get("TEL", "")).removeprefix("tel:"),
        email=clean(values.get("EMAIL", "")),
        address=clean(", ".join(part for part in values.get("ADR", "").split(";") if part.strip())),
    )


def _unfold(text: str) -> list[str]:
    """A line that begins with a space goes on the one before."""
    joined = text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "")
    return [line.strip() for line in joined.split("\n") if line.strip()]


def _properties(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            plain = value.replace("\\n", " ").replace("\\,", ",").replace("\\;", ";")
            yield name.partition(";")[0].rpartition(".")[2].upper(), plain


def _is_card(url: URL) -> bool:
    return url.path.lower().endswith(".vcf")


def _is_contact_page(url: URL, site: URL) -> bool:
    return urls.same_site(url, site) and bool(CONTACT.search(url.path)) and not _is_card(url)
