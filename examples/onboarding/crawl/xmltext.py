"""XML from strangers: well-formed or refused, no DOCTYPE, hence no entity that grows or reads files.

Pure. Tags come without their namespace: a sitemap or feed is recognised by its local names.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from onboarding.crawl.trouble import ChannelTrouble

DEEPEST: Final = 100


def parse_xml(body: bytes) -> Element:
    """The root element of `body`. Raises ChannelTrouble("bad_markup") with the place of the mistake."""
    target = _ShallowTree()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = target.start
    parser.EndElementHandler = target.end
    parser.CharacterDataHandler = target.builder.data
    try:
        parser.Parse(body, True)  # noqa: FBT003 -- "this is all", by position only
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise ChannelTrouble("bad_markup", f"the XML is not well-formed: {error}") from error
    return target.builder.close()


def child_text(element: Element, *tags: str) -> str:
    """The text of the first child with one of `tags`, in their order; empty when there is none."""
    for tag in tags:
        child = element.find(tag)
        if child is not None:
            return "".join(child.itertext())
    return ""


class _ShallowTree:
    """Builds the tree, and refuses one so deep that walking it would end in a RecursionError."""

    def __init__(self) -> None:
        self.builder = TreeBuilder()
        self._depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ChannelTrouble("bad_markup", f"the XML is nested more than {DEEPEST} deep")
        self.builder.start(tag.rpartition("}")[2], attributes)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self.builder.end(tag.rpartition("}")[2])


def _refuse_doctype(name: str, system_id: str | None, public_id: str | None, has_subset: int) -> None:
    raise ChannelTrouble("bad_markup", "the XML has a DOCTYPE, which is not read")
