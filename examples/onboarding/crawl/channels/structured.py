"""Channel `structured_data`: what the pages say about the place in schema.org terms, as JSON-LD or microdata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from selectolax.lexbor import LexborNode

from onboarding.crawl import page as html
from onboarding.crawl import urls
from onboarding.crawl.page import Page
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import LONG, Facts, Offer, Picture, clean, merge

Node = Mapping[str, object]

_MOST_NODES: Final = 400
_PLACE_SIGNS: Final = (
    "address",
    "telephone",
    "openingHours",
    "openingHoursSpecification",
    "priceRange",
    "geo",
    "hasMenu",
)


async def look(visit: Visit) -> Found:
    nodes: list[tuple[Page, Node]] = []
    mistakes: list[str] = []
    for page in visit.read_pages():
        found, wrong = json_nodes(list(html.scripts(page, "application/ld+json")))
        nodes.extend((page, node) for node in (*found, *microdata_nodes(page)))
        mistakes.extend(wrong)
    if mistakes and not nodes:
        raise ChannelTrouble("bad_markup", mistakes[0])
    if not nodes:
        return Found(items=0, http_status=200, note="no JSON-LD and no microdata on the pages")
    note = f"{len(mistakes)} of the blocks can't be read: {mistakes[0]}" if mistakes else None
    return Found(items=len(nodes), facts=facts_of(nodes), http_status=200, note=note)


def json_nodes(blocks: list[str]) -> tuple[list[Node], list[str]]:
    """The objects of JSON-LD blocks, `@graph` and lists opened, and a line for each block that is no JSON."""
    nodes: list[Node] = []
    mistakes: list[str] = []
    for block in blocks:
        try:
            nodes.extend(_open_lists(json.loads(block)))
        except (ValueError, RecursionError) as error:
            mistakes.append(f"the JSON-LD is no JSON: {clean(str(error))}")
    return nodes[:_MOST_NODES], mistakes


def microdata_nodes(page: Page) -> list[Node]:
    """The outermost items of a page's microdata, each as an object like the ones of JSON-LD."""
    scopes = page.tree.css("[itemscope][itemtype]")[:_MOST_NODES]
    return [_microdata_node(page, scope) for scope in scopes if not scope.attributes.get("itemprop")]


def facts_of(nodes: list[tuple[Page, Node]]) -> Facts:
    """The facts of all nodes; the one that looks most like a place comes first and alone gives the name."""
    ranked = sorted(nodes, key=lambda entry: _place_likeness(entry[1]), reverse=True)
    page, place = ranked[0]
    offers = tuple(offer for _, node in nodes for offer in _offers(node))
    return merge([_place_facts(page, place), Facts(offers=offers)])


def _open_lists(value: object) -> Iterator[Node]:
    waiting = [value]
    while waiting:
        entry = waiting.pop(0)
        if isinstance(entry, list):
            waiting[:0] = entry[:_MOST_NODES]
        elif isinstance(entry, dict):
            graph = entry.get("@graph")
            if isinstance(graph, list):
                waiting[:0] = graph[:_MOST_NODES]
            else:
                yield entry


def _microdata_node(page: Page, scope: LexborNode) -> Node:
    values: dict[str, list[object]] = {}
    for part in scope.css("[itemprop]"):
        values.setdefault(part.attributes.get("itemprop") or "", []).append(_microdata_value(page, part))
    node: dict[str, object] = {name: found[0] if len(found) == 1 else found for name, found in values.items()}
    street = [
        _text(node[name]) for name in ("streetAddress", "postalCode", "addressLocality") if name in node
    ]
    return {**node, "address": ", ".join(street)} if street else node


def _microdata_value(page: Page, part: LexborNode) -> str:
    attributes = part.attributes
    told = attributes.get("content") or attributes.get("datetime")
    if told:
        return told
    reference = attributes.get("href") or attributes.get("src")
    if reference:
        return str(urls.join(page.base, reference) or reference)
    return part.text(separator=" ")


def _place_likeness(node: Node) -> int:
    return sum(name in node for name in _PLACE_SIGNS) * 2 + ("name" in node)


def _place_facts(page: Page, node: Node) -> Facts:
    return Facts(
        name=clean(_text(node.get("name"))),
        description=clean(_text(node.get("description")), LONG),
        phone=clean(_text(node.get("telephone"))).removeprefix("tel:"),
        email=clean(_text(node.get("email"))).removeprefix("mailto:"),
        address=_address(node.get("address")),
        price_range=clean(_text(node.get("priceRange")), 40),
        opening_hours=_opening_hours(node),
        links=tuple(
            str(url) for link in _list(node.get("sameAs")) if (url := urls.join(page.base, _text(link)))
        ),
        pictures=tuple(_pictures(page, node)),
    )


def _address(value: object) -> str:
    if isinstance(value, list):
        return _address(value[0]) if value else ""
    if isinstance(value, dict):
        parts = ("streetAddress", "postalCode", "addressLocality", "addressRegion", "addressCountry")
        return clean(", ".join(text for part in parts if (text := _text(value.get(part)))))
    return clean(_text(value))


def _opening_hours(node: Node) -> tuple[str, ...]:
    written = [clean(_text(entry)) for entry in _list(node.get("openingHours"))]
    computed = [_hours_line(entry) for entry in _list(node.get("openingHoursSpecification"))]
    return tuple(line for line in (*written, *computed) if line)[:14]


def _hours_line(entry: object) -> str:
    if not isinstance(entry, dict):
        return ""
    days = [clean(_text(day)).rpartition("/")[2] for day in _list(entry.get("dayOfWeek"))]
    opens, closes = clean(_text(entry.get("opens")), 20), clean(_text(entry.get("closes")), 20)
    return f"{', '.join(days)} {opens}-{closes}".strip() if opens and closes else ""


def _pictures(page: Page, node: Node) -> Iterator[Picture]:
    for entry in _list(node.get("image")):
        reference = _text(entry.get("url")) if isinstance(entry, dict) else _text(entry)
        url = urls.join(page.base, reference)
        if url is not None:
            yield Picture(url=str(url))


def _offers(node: Node) -> Iterator[Offer]:
    for entry in (node, *_list(node.get("makesOffer")), *_list(node.get("offers"))):
        if isinstance(entry, dict) and "price" in entry:
            item = entry.get("itemOffered")
            name = _text(entry.get("name")) or (_text(item.get("name")) if isinstance(item, dict) else "")
            price = f"{_text(entry.get('price'))} {_text(entry.get('priceCurrency'))}"
            yield Offer(name=clean(name or _text(node.get("name"))), price=clean(price, 40))


def _text(value: object) -> str:
    """A value of JSON-LD as text: itself, the first of a list, or its `@value` or `name`."""
    for _ in range(4):
        if isinstance(value, list):
            value = value[0] if value else ""
        elif isinstance(value, dict):
            value = value.get("@value", value.get("name", ""))
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _list(value: object) -> list[object]:
    if value is None:
        return []
    return value[:_MOST_NODES] if isinstance(value, list) else [value]
