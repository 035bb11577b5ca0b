"""What Slack and Discord make of their markup, as HTML: as far as cards use it, and what a text could become by it.

Invariant: nothing that stands in a text becomes HTML by itself; what is not markup is shown as it is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

_FENCE = re.compile(r"```(.*?)```", re.DOTALL)
_SLACK = re.compile(
    r"<(?P<url>https?://[^|>]+)\|(?P<label>[^>]*)>"
    r"|<(?P<mention>[!@#][^>]*)>"
    r"|(?<![\w`])`(?P<code>[^`\n]+)`"
    r"|(?<!\w)\*(?P<bold>[^*\n]+)\*(?!\w)"
    r"|(?<!\w)_(?P<italic>[^_\n]+)_(?!\w)"
    r"|(?<!\w)~(?P<gone>[^~\n]+)~(?!\w)"
    r"|(?P<entity>&amp;|&lt;|&gt;)"
)
_DISCORD = re.compile(
    r"\\(?P<escaped>[^0-9A-Za-z\s])"
    r"|\[(?P<label>(?:\\.|[^\]\\])*)\]\((?P<url>https?://[^\s)]+)\)"
    r"|(?P<bare>https?://[^\s<]+)"
    r"|(?P<mention>@everyone|@here|<[@#:][^>]+>)"
    r"|`(?P<code>[^`]+)`"
    r"|\*\*(?P<bold>.+?)\*\*"
    r"|(?<!\w)[*_](?P<italic>[^*_\n]+)[*_](?!\w)"
    r"|~~(?P<gone>.+?)~~"
    r"|\|\|(?P<spoiler>.+?)\|\|"
)
_TAGS = {"bold": "b", "italic": "i", "gone": "s", "code": "code"}


def slack_markup(text: str) -> str:
    """Give the HTML of a text in Slack's mrkdwn."""
    return _fenced(text, lambda part: _marked(part, _SLACK), lambda code: html.escape(html.unescape(code)))


def discord_markup(text: str) -> str:
    """Give the HTML of a text in Discord's markdown."""
    return _fenced(text, lambda part: _marked(part, _DISCORD), html.escape)


def _fenced(text: str, outside: Callable[[str], str], inside: Callable[[str], str]) -> str:
    parts = _FENCE.split(text)
    shown = [
        f"<pre>{inside(part.strip(chr(10)))}</pre>" if n % 2 else outside(part.strip("\n"))
        for n, part in enumerate(parts)
    ]
    return "".join(shown)


def _marked(text: str, pattern: re.Pattern[str]) -> str:
    shown, at = "", 0
    for found in pattern.finditer(text):
        shown += _plain(text[at : found.start()]) + _one(found, pattern)
        at = found.end()
    return shown + _plain(text[at:])


def _one(found: re.Match[str], pattern: re.Pattern[str]) -> str:
    kind, inner = next((name, value) for name, value in found.groupdict().items() if value is not None)
    match kind:
        case "escaped":
            return _plain(inner)
        case "entity":
            return inner
        case "url" | "label":
            url = html.escape(html.unescape(found["url"]), quote=True)
            return f'<a href="{url}">{_marked(found["label"], pattern)}</a>'
        case "bare":
            return f'<a class="unasked" href="{html.escape(inner, quote=True)}">{_plain(inner)}</a>'
        case "mention":
            return f'<span class="mention">{_plain(inner)}</span>'
        case "spoiler":
            return f'<span class="spoiler">{_plain(inner)}</span>'
        case _:
            return f"<{_TAGS[kind]}>{_plain(inner)}</{_TAGS[kind]}>"


def _plain(text: str) -> str:
    return html.escape(text, quote=False).replace("\n", "<br>")
