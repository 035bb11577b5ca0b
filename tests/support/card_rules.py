"""The rules that cards are held to, as far as we rely on them: each function gives what is wrong, as texts.

They are written after the vendors' published limits: the schema of Adaptive Cards 1.4 and what Teams says about
webhooks, Slack's reference of Block Kit, Discord's limits of embeds, PagerDuty's reference of Events v2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

ADAPTIVE: dict[str, tuple[set[str], set[str]]] = {  # element: what it must have, what it may have
    "Container": ({"items"}, {"style", "bleed", "spacing", "separator", "id"}),
    "RichTextBlock": ({"inlines"}, {"spacing", "separator", "id", "horizontalAlignment"}),
    "TextRun": (
        {"text"},
        {"weight", "size", "color", "isSubtle", "fontType", "italic", "strikethrough", "highlight"},
    ),
    "Action.OpenUrl": ({"url", "title"}, {"style", "id", "iconUrl"}),
}
CHOICES = {
    "style": {"default", "emphasis", "good", "attention", "warning", "accent", "positive", "destructive"},
    "weight": {"Default", "Lighter", "Bolder"},
    "size": {"Default", "Small", "Medium", "Large", "ExtraLarge"},
    "fontType": {"Default", "Monospace"},
    "spacing": {"Default", "None", "Small", "Medium", "Large", "ExtraLarge", "Padding"},
    "color": {"Default", "Dark", "Light", "Accent", "Good", "Warning", "Attention"},
}
TEXTS = ("text", "title", "url", "fallbackText")
CARD = {"type", "$schema", "version", "body", "actions", "fallbackText", "msteams", "speak", "lang"}


def teams_problems(body: bytes) -> list[str]:
    """The envelope, the card in it, and its size."""
    if len(body.decode().encode("utf-16-le")) > 14_000:
        return ["larger than 14,000 bytes in UTF-16"]
    message = json.loads(body)
    if set(message) != {"type", "attachments"} or message["type"] != "message":
        return ["the envelope is not that of a message"]
    (attachment,) = message["attachments"]
    if attachment["contentType"] != "application/vnd.microsoft.card.adaptive" or attachment["contentUrl"]:
        return ["the attachment is not an Adaptive Card"]
    return list(_card_problems(attachment["content"]))


def _card_problems(card: dict[str, Any]) -> Iterator[str]:
    if card.get("type") != "AdaptiveCard" or card.get("version") != "1.4" or not set(card) <= CARD:
        yield f"not a card of version 1.4: {sorted(card)}"
    if not card.get("body"):
        yield "the body is empty"
    for element in card.get("body", []):
        yield from _element_problems(element, {"Container", "RichTextBlock"})
    if len(card.get("actions", [])) > 6:
        yield "more than six actions"
    for action in card.get("actions", []):
        yield from _element_problems(action, {"Action.OpenUrl"})


def _element_problems(element: dict[str, Any], allowed: set[str]) -> Iterator[str]:
    kind = element.get("type", "")
    if kind not in allowed:
        yield f"{kind} can't stand here"
        return
    must, may = ADAPTIVE[kind]
    if not must <= set(element) - {"type"} <= must | may:
        yield f"{kind} has {sorted(element)}"
    yield from (f"{kind}.{name} is {element[name]}" for name in CHOICES if not _is_choice(element, name))
    yield from (f"{kind}.{name} is no text" for name in TEXTS if not isinstance(element.get(name, ""), str))
    if kind == "Action.OpenUrl" and (not is_web(element["url"]) or not element["title"]):
        yield "a button that leads nowhere"
    if kind == "TextRun" and not element["text"]:
        yield "an empty run"
    for inner in element.get("items", []):
        yield from _element_problems(inner, {"RichTextBlock", "Container"})
    for inner in element.get("inlines", []):
        yield from _element_problems(inner, {"TextRun"})


def _is_choice(element: dict[str, Any], name: str) -> bool:
    return name not in element or element[name] in CHOICES[name]


def slack_problems(body: bytes) -> list[str]:
    """Blocks and their texts."""
    message = json.loads(body)
    blocks = message["blocks"]
    found = [] if 1 <= len(blocks) <= 50 else [f"{len(blocks)} blocks"]
    found += (
        ["a mention in the text of a notification"] if re.search(r"<[!@#]", message.get("text", "")) else []
    )
    if not message.get("text"):
        found.append("no text for a notification")
    return found + [problem for block in blocks for problem in _block_problems(block)]


def _block_problems(block: dict[str, Any]) -> Iterator[str]:
    match block["type"]:
        case "header":
            yield from _text_problems(block["text"], 150, kinds={"plain_text"})
        case "context":
            yield from _list_problems(block["elements"], 10)
            for element in block["elements"]:
                yield from _text_problems(element, 3000)
        case "section":
            yield from _section_problems(block)
        case "actions":
            yield from _list_problems(block["elements"], 25)
            for button in block["elements"]:
                yield from _button_problems(button)
        case kind:
            yield f"a block of type {kind}"


def _list_problems(elements: list[Any], most: int) -> Iterator[str]:
    if not 1 <= len(elements) <= most:
        yield f"{len(elements)} elements where 1 to {most} fit"


def _section_problems(block: dict[str, Any]) -> Iterator[str]:
    if ("text" in block) == ("fields" in block):
        yield "a section has either a text or fields here"
    if "text" in block:
        yield from _text_problems(block["text"], 3000)
    else:
        yield from _list_problems(block["fields"], 10)
    for field in block.get("fields", []):
        yield from _text_problems(field, 2000)


def _button_problems(button: dict[str, Any]) -> Iterator[str]:
    if button["type"] != "button" or not is_web(button.get("url", "")) or len(button["url"]) > 3000:
        yield "an element that is no button with a link"
    if len(button.get("action_id", "")) > 255 or button.get("style", "primary") not in ("primary", "danger"):
        yield "a button with an odd id or style"
    yield from _text_problems(button["text"], 75, kinds={"plain_text"})


def _text_problems(text: dict[str, Any], most: int, kinds: set[str] | None = None) -> Iterator[str]:
    if text["type"] not in (kinds or {"plain_text", "mrkdwn"}):
        yield f"a text of type {text['type']}"
    if not 1 <= units(text["text"]) <= most:
        yield f"a text of {units(text['text'])} characters where {most} fit"
    marked = re.findall(r"<([^>]*)>", text["text"]) if text["type"] == "mrkdwn" else []
    if not all(re.fullmatch(r"https?://[^|]{1,2900}\|.+", one) for one in marked):
        yield f"markup that is not ours: {marked}"
    other = "verbatim" if text["type"] == "plain_text" else "emoji"
    if other in text:
        yield "a property of the other type of text"


def discord_problems(body: bytes) -> list[str]:
    """Embeds and their texts."""
    message = json.loads(body)
    found = [] if message["allowed_mentions"] == {"parse": []} else ["somebody could be mentioned"]
    (embed,) = message["embeds"]
    if not set(embed) <= {"title", "description", "color", "fields", "author", "footer", "timestamp", "url"}:
        found.append(f"an embed has {sorted(embed)}")
    texts = {
        "title": embed["title"],
        "description": embed["description"],
        "author": embed.get("author", {}).get("name", ""),
        "footer": embed.get("footer", {}).get("text", ""),
    }
    limits = {"title": 256, "description": 4096, "author": 256, "footer": 2048}
    found += [f"the {name} is too long" for name, text in texts.items() if units(text) > limits[name]]
    found += ["no title"] if not embed["title"].strip() else []
    found += ["more than 25 fields"] if len(embed["fields"]) > 25 else []
    found += ["a colour that is none"] if not 0 <= embed["color"] <= 0xFFFFFF else []
    for field in embed["fields"]:
        if not 1 <= units(field["name"].strip()) <= 256 or not 1 <= units(field["value"].strip()) <= 1024:
            found.append(f"field {field['name']} has {units(field['value'])} characters")
    all_texts = [*texts.values(), *(field[part] for field in embed["fields"] for part in ("name", "value"))]
    return found + (["more than 6000 characters"] if sum(map(units, all_texts)) > 6000 else [])


def pagerduty_problems(body: bytes) -> list[str]:
    """The event and its payload."""
    event = json.loads(body)
    found = [] if len(body) <= 512_000 else ["larger than 512 KB"]
    if event["event_action"] not in ("trigger", "acknowledge", "resolve"):
        found.append(f"the action is {event['event_action']}")
    if not event["routing_key"] or not 1 <= len(event["dedup_key"]) <= 255:
        found.append("a key is missing, or too long")
    if event["event_action"] == "trigger":
        payload = event["payload"]
        if not 1 <= len(payload["summary"]) <= 1024 or not payload["source"]:
            found.append("a payload needs a summary of at most 1024 characters, and a source")
        if payload["severity"] not in ("critical", "error", "warning", "info"):
            found.append(f"the severity is {payload['severity']}")
        if "timestamp" in payload and datetime.fromisoformat(payload["timestamp"]).tzinfo is None:
            found.append("a time without its zone")
        if not all(is_web(link["href"]) and link["text"] for link in event.get("links", [])):
            found.append("a link that leads nowhere")
    return found


def is_web(url: str) -> bool:
    """Whether it is an address of http or https with a host."""
    return urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)


def units(text: str) -> int:
    """Characters as JavaScript counts them."""
    return len(text.encode("utf-16-le")) // 2
