"""Pages on which messages look about as each vendor shows them, made of the very bytes that are posted.

The layout follows the vendors' clients roughly: order, wrapping, columns, weights and the colours of both themes. What
a vendor does not show is not here either: of an incident what PagerDuty's app shows, of a letter its own HTML.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

from support.markup import discord_markup, slack_markup

Card = Callable[[bytes], str]

_STYLE = Path(__file__).with_suffix(".css")
_HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
)


def stacked(vendor: str, cards: Mapping[str, str]) -> str:
    """Give one page with cards, each in a section of its own that bears its name."""
    sections = "".join(
        f'<section data-name="{html.escape(name)}">{card}</section>' for name, card in cards.items()
    )
    head = f"<head>{_HEAD}<style>{_STYLE.read_text(encoding='utf-8')}</style></head>"
    return f'<!DOCTYPE html><html>{head}<body class="{vendor}">{sections}</body></html>'


def teams_card(posted: bytes) -> str:
    """An Adaptive Card: its body, then its buttons."""
    card = json.loads(posted)["attachments"][0]["content"]
    return _elements(card["body"]) + _buttons(
        (one["title"], one["url"]) for one in _actions(card.get("actions", []))
    )


def _actions(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in actions if one["type"] == "Action.OpenUrl"]


def _elements(elements: list[dict[str, Any]]) -> str:
    return "".join(map(_element, elements))


def _element(element: dict[str, Any]) -> str:
    match element["type"]:
        case "Container":
            style = element.get("style", "default")
            bleed = " bleed" if element.get("bleed") else ""
            ground = "" if style == "default" else f"background:var(--{style})"
            return f'<div class="box{bleed}" style="{ground}">{_elements(element["items"])}</div>'
        case "RichTextBlock":
            return f'<div class="text {element.get("spacing", "")}">{"".join(map(_run, element["inlines"]))}</div>'
        case kind:
            raise AssertionError(f"{kind} is not shown here")


def _run(run: dict[str, Any]) -> str:
    looks = [run.get("weight", ""), run.get("size", ""), run.get("fontType", "")]
    looks += ["subtle"] if run.get("isSubtle") else []
    return f'<span class="{" ".join(looks)}">{_text(run["text"])}</span>'


def slack_card(posted: bytes) -> str:
    """Blocks, one below the other."""
    return "".join(map(_block, json.loads(posted)["blocks"]))


def _block(block: dict[str, Any]) -> str:
    match block["type"]:
        case "header":
            return f"<h3>{_slack_text(block['text'])}</h3>"
        case "context":
            return f'<div class="context">{" ".join(map(_slack_text, block["elements"]))}</div>'
        case "section" if "fields" in block:
            fields = "".join(f"<div>{_slack_text(field)}</div>" for field in block["fields"])
            return f'<div class="block fields">{fields}</div>'
        case "section":
            return f'<div class="block">{_slack_text(block["text"])}</div>'
        case "actions":
            return _buttons((one["text"]["text"], one["url"]) for one in block["elements"])
        case kind:
            raise AssertionError(f"{kind} is not shown here")


def _slack_text(text: dict[str, Any]) -> str:
    return _text(text["text"]) if text["type"] == "plain_text" else slack_markup(text["text"])


def discord_card(posted: bytes) -> str:
    """An embed: title, description, fields, footer."""
    return "".join(map(_embed, json.loads(posted)["embeds"]))


def _embed(embed: dict[str, Any]) -> str:
    fields = "".join(
        f'<div class="{"" if field.get("inline") else "wide"}"><div class="name">{discord_markup(field["name"])}</div>'
        f"{discord_markup(field['value'])}</div>"
        for field in embed.get("fields", [])
    )
    return (
        f'<div class="embed" style="border-color:#{embed["color"]:06x}">'
        f'<div class="author">{_text(embed["author"]["name"])}</div>'
        f"<h4>{discord_markup(embed['title'])}</h4>"
        f'{discord_markup(embed.get("description", ""))}<div class="fields">{fields}</div>'
        f'<div class="footer">{_text(embed.get("timestamp", ""))}</div></div>'
    )


def pagerduty_card(posted: bytes) -> str:
    """An incident as it is opened; a later event about it shows nothing but what it does."""
    event = json.loads(posted)
    if event["event_action"] != "trigger":
        return f'<h3>{event["event_action"]}</h3><div class="subtle">{_text(event["dedup_key"])}</div>'
    payload = event["payload"]
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td>{_detail(value)}</td></tr>"
        for name, value in payload["custom_details"].items()
    )
    links = " · ".join(_link(one["text"], one["href"]) for one in event["links"])
    known = (payload[name] for name in ("severity", "source", "component", "class") if name in payload)
    return (
        f'<h3>{_text(payload["summary"])}</h3><div class="subtle">{_text(" · ".join(known))}</div>'
        f"<table>{rows}</table><p>{links}</p>"
    )


def _detail(value: object) -> str:
    return "<br>".join(map(_text, value)) if isinstance(value, list) else _text(str(value))


def letter_page(letter: bytes) -> str:
    """The HTML of a letter, which is a page by itself."""
    part = message_from_bytes(letter, policy=default).get_body(("html",))
    assert part is not None
    return str(part.get_content())


def letter_text(letter: bytes) -> str:
    """The text of a letter, for who reads letters as texts; Apprise is given the same."""
    part = message_from_bytes(letter, policy=default).get_body(("plain",))
    assert part is not None
    return f"<pre>{_text(str(part.get_content()))}</pre>"


def _buttons(links: Iterable[tuple[str, str]]) -> str:
    shown = "".join(
        f'<a class="button" href="{html.escape(url, quote=True)}">{_text(label)}</a>' for label, url in links
    )
    return f'<div class="actions">{shown}</div>' if shown else ""


def _link(label: str, url: str) -> str:
    return f'<a href="{html.escape(url, quote=True)}">{_text(label)}</a>'


def _text(text: str) -> str:
    return html.escape(text, quote=False)
