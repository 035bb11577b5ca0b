"""One HTML page, read with selectolax (the HTML5 parser lexbor): title, text, links, pictures, embedded data.

Pure. Invariant: any bytes at all give a page; every text that leaves is clean, every link a web address or left out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode
from yarl import URL

from onboarding.crawl import urls
from onboarding.crawl.fetch import Reply
from onboarding.facts import LONG, Picture, clean

_META_CHARSET: Final = re.compile(rb"""<meta[^>]+charset=["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SHORTEST_PARAGRAPH: Final = 40
_MOST_LINKS: Final = 500


@dataclass(frozen=True, slots=True)
class Link:
    """A reference of a page: `url` absolute, `rel` and `type` as its attributes say, in lower case."""

    url: URL
    text: str
    rel: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was read; `base` is what its references are relative to."""

    url: URL
    base: URL
    tree: LexborHTMLParser


def read_page(reply: Reply) -> Page:
    """Parse an answer; the encoding is the byte order mark's, else the header's, else the page's own, else UTF-8."""
    tree = LexborHTMLParser(decode(reply.body, reply.charset))
    base = tree.css_first("base[href]")
    reference = (base.attributes.get("href") if base else None) or ""
    return Page(url=reply.url, base=urls.join(reply.url, reference) or reply.url, tree=tree)


def decode(body: bytes, charset: str | None) -> str:
    """Bytes of a page or text file as text; what does not fit becomes a replacement character."""
    told = next((name for mark, name in _BYTE_ORDER_MARKS if body.startswith(mark)), None) or charset
    if told is None:
        match = _META_CHARSET.search(body[:2048])
        told = match.group(1).decode("ascii") if match else "utf-8"
    try:
        text = body.decode(told, "replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def title(page: Page) -> str:
    """The page's title, else its first heading."""
    return first_text(page, "title") or first_text(page, "h1")


def language(page: Page) -> str:
    root = page.tree.css_first("html")
    return clean(root.attributes.get("lang") or "", 20) if root else ""


def first_text(page: Page, selector: str) -> str:
    node = page.tree.css_first(selector)
    return clean(node.text(separator=" ")) if node else ""


def meta(page: Page, *names: str) -> str:
    """The content of the first `<meta>` whose name or property is one of `names`, in their order."""
    found = {
        _meta_name(node): node.attributes.get("content") or ""
        for node in reversed(page.tree.css("meta[content]"))
    }
    return next((clean(found[name], LONG) for name in names if found.get(name)), "")


def metas(page: Page, prefix: str) -> int:
    """How many `<meta>` elements have a name or property that begins with `prefix`."""
    return sum(_meta_name(node).startswith(prefix) for node in page.tree.css("meta[content]"))


def opening_text(page: Page) -> str:
    """The first paragraph that is long enough to say something."""
    paragraphs = (clean(node.text(separator=" "), LONG) for node in page.tree.css("p"))
    return next((text for text in paragraphs if len(text) >= _SHORTEST_PARAGRAPH), "")


def links(page: Page) -> Iterator[Link]:
    """Every `<a>` and `<link>` that points at a web address, in the page's order."""
    for node in page.tree.css("a[href], link[href]")[:_MOST_LINKS]:
        url = urls.join(page.base, node.attributes.get("href") or "")
        if url is not None:
            rel, kind = (
                (node.attributes.get("rel") or "").lower(),
                (node.attributes.get("type") or "").lower(),
            )
            yield Link(url=url, text=clean(node.text(separator=" ")), rel=rel, type=kind)


def references(page: Page, scheme: str) -> Iterator[str]:
    """What `<a href="SCHEME:…">` names, such as a telephone number, without parameters."""
    for node in page.tree.css("a[href]"):
        name, colon, rest = (node.attributes.get("href") or "").strip().partition(":")
        if colon and name.lower() == scheme:
            yield clean(rest.partition("?")[0])


def pictures(page: Page) -> Iterator[Picture]:
    """Every picture of the page; of a `srcset` the last, which is by custom the largest."""
    for node in page.tree.css("img"):
        url = urls.join(page.base, _picture_source(node))
        if url is not None:
            yield Picture(url=str(url), alt=clean(node.attributes.get("alt") or ""))


def scripts(page: Page, kind: str) -> Iterator[str]:
    """The text of every `<script type=kind>`."""
    for node in page.tree.css("script[type]"):
        if (node.attributes.get("type") or "").partition(";")[0].strip().lower() == kind:
            yield node.text()


def _meta_name(node: LexborNode) -> str:
    return (node.attributes.get("property") or node.attributes.get("name") or "").strip().lower()


def _picture_source(node: LexborNode) -> str:
    candidates = [part.split() for part in (node.attributes.get("srcset") or "").split(",")]
    largest = next((parts[0] for parts in reversed(candidates) if parts), "")
    source = node.attributes.get("src") or ""
    if source.startswith("data:") or not source:
        source = node.attributes.get("data-src") or ""
    return largest or source
