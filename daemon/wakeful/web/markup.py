"""Pages of plain HTML: how they are written, how they look, and the headers under which a browser shows them.

Invariant: texts become HTML here and nowhere else, and every one is escaped on the way. A page has no script, loads
nothing, can't be framed, sends its forms to where it came from, and is kept nowhere.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Final, NewType

from aiohttp import web

Html = NewType("Html", str)

_UNSHOWN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_TURNING: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1a1d21;--paper:#fbfbfa;--soft:#5c6470;--line:#d9dce1;--box:#f0f1f3;--bar:#0b57d0;
--error:#b3261e;--warning:#8a5a00;--info:#0b57d0;--good:#146c2e}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#15171a;--soft:#a3abb6;--line:#343a42;--box:#20242a;
--bar:#8ab4f8;--error:#ff8a80;--warning:#f5c26b;--info:#8ab4f8;--good:#7ddc97}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:44rem;margin:0 auto;padding:1.25rem 1rem 3rem}
h1{font-size:1.35rem;line-height:1.3;margin:.25rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1rem;margin:1.75rem 0 .5rem}
p{margin:.75rem 0;overflow-wrap:anywhere}
.over{color:var(--soft);margin:0;font-size:.9rem}
.error,.critical{color:var(--error)}.warning{color:var(--warning)}.info{color:var(--info)}.good{color:var(--good)}
.over b{font-weight:600}
dl{margin:0;display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem}
dt{color:var(--soft)}dd{margin:0;min-width:0;overflow-wrap:anywhere}
pre,code{font-family:ui-monospace,monospace;font-size:.9rem}
pre{background:var(--box);border-radius:6px;padding:.75rem;margin:.75rem 0;white-space:pre-wrap;overflow-wrap:anywhere}
code{background:var(--box);border-radius:4px;padding:.1rem .3rem;overflow-wrap:anywhere;display:inline-block}
ul{margin:0;padding:0;list-style:none}
li{border-top:1px solid var(--line);padding:.5rem 0;overflow-wrap:anywhere}
li small{color:var(--soft);display:block}
label{display:block;margin:1.25rem 0 .35rem}
input,button{font:inherit;width:100%;max-width:24rem;padding:.7rem .8rem;border-radius:6px}
input{border:1px solid var(--soft);background:var(--paper);color:inherit}
button{display:block;margin-top:1rem;border:0;background:var(--bar);color:var(--paper);font-weight:600;cursor:pointer}
input:focus-visible,button:focus-visible{outline:3px solid var(--bar);outline-offset:2px}
@media (max-width:30rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.6rem}}
"""
_STYLE_HASH: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_NOTHING_ELSE: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"

HEADERS: Final = (
    ("Content-Security-Policy", f"{_NOTHING_ELSE}; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'"),
    # Not no-referrer: a browser would then send the origin "null" with our own form, as any other page's.
    ("Referrer-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
    ("X-Robots-Tag", "noindex, nofollow"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


def page(
    title: str,
    parts: Iterable[Html],
    *,
    status: int = 200,
    over: Html | None = None,
    retry: int | None = None,
) -> web.Response:
    """Give a page: what stands over its title, the title, its parts. `retry`: in how many seconds to try again."""
    headers = dict(HEADERS) | ({} if retry is None else {"Retry-After": str(retry)})
    text = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">'
        f"<title>{_safe(title)} - Wakeful</title><style>{_STYLE}</style></head><body><main>"
        f'{over or ""}<h1 dir="auto">{_safe(title)}</h1>{"".join(parts)}</main></body></html>\n'
    )
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8", headers=headers)


def overline(words: Iterable[str], look: str) -> Html:
    """Give what stands over a title; the first word stands out. `look` is one of the style's own."""
    first, *rest = words
    return Html(
        f'<p class="over"><b class="{_safe(look)}">{_safe(first)}</b>{"".join(map(_dotted, rest))}</p>'
    )


def paragraph(text: str) -> Html:
    """Give a paragraph."""
    return Html(f'<p dir="auto">{_safe(text)}</p>')


def command(said: str, line: str) -> Html:
    """Give a paragraph that ends with a command for a terminal."""
    return Html(f"<p>{_safe(said)} <code>{_safe(line)}</code></p>")


def verbatim(text: str) -> Html:
    """Give a text as it was written, such as an error; nothing for an empty one."""
    return Html(f'<pre dir="auto">{_safe(text)}</pre>' if text else "")


def facts(known: Iterable[tuple[str, object]]) -> Html:
    """Give things to know with their values; those without one are left out."""
    rows = [
        f'<dt>{_safe(label)}</dt><dd dir="auto">{_safe(value)}</dd>'
        for label, value in known
        if value not in (None, "")
    ]
    return Html(f"<dl>{''.join(rows)}</dl>" if rows else "")


def listed(heading: str, lines: Iterable[tuple[str, str]]) -> Html:
    """Give a list of lines, each with what stands small below it; nothing for an empty one."""
    rows = [f'<li dir="auto">{_safe(line)}<small>{_safe(below)}</small></li>' for line, below in lines]
    return Html(f"<h2>{_safe(heading)}</h2><ul>{''.join(rows)}</ul>" if rows else "")


def form(label: str, button: str) -> Html:
    """Give a form with one field, `name`, and one button; it is sent to the address that it was got from."""
    return Html(
        f'<form method="post"><label for="name">{_safe(label)}</label>'
        '<input id="name" name="name" maxlength="80" autocomplete="name">'
        f'<button type="submit">{_safe(button)}</button></form>'
    )


def _dotted(word: str) -> str:
    return f" &middot; {_safe(word)}"


def _safe(value: object) -> str:
    return escape(_UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", _TURNING.sub("", str(value))), quote=True)
