"""Channel `manifest`: the web app manifest (W3C), where a site keeps its name and its colour."""

from __future__ import annotations

import json
import re
from typing import Final

from onboarding.crawl.page import decode
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.visit import Found, Visit
from onboarding.facts import LONG, Facts, clean

_TYPES: Final = ("application/", "text/")
_COLOUR: Final = re.compile(r"#[0-9a-fA-F]{6}")


async def look(visit: Visit) -> Found:
    manifest = next((link.url for link in visit.links() if "manifest" in link.rel.split()), None)
    if manifest is None:
        return Found(items=0, note="the pages name no manifest")
    reply = await visit.open_file(manifest, *_TYPES)
    facts = manifest_facts(decode(reply.body, reply.charset))
    return Found(
        items=facts.known, facts=facts, http_status=200, note=None if facts.known else "the manifest is empty"
    )


def manifest_facts(text: str) -> Facts:
    """The facts of a manifest. Raises ChannelTrouble when it is no JSON object."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChannelTrouble("bad_markup", f"the manifest is no JSON: {clean(str(error))}") from error
    if not isinstance(document, dict):
        raise ChannelTrouble("bad_markup", "the manifest is no JSON object")
    colour = clean(document.get("theme_color"), 20)
    return Facts(
        name=clean(document.get("name")) or clean(document.get("short_name")),
        description=clean(document.get("description"), LONG),
        theme_colour=colour.lower() if _COLOUR.fullmatch(colour) else "",
    )
