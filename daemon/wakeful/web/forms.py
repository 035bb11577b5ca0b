"""What is sent to a page: whether its own form sent it, and the one field that it has.

Invariant: at most `LARGEST_FORM` bytes are kept, and waited for `BODY_SECONDS` at most. The request's Host is not
believed: what is ours is known from the configuration, or from the browser.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

import anyio
from aiohttp import web

from wakeful.web.refusals import not_understood

FORM_TYPE: Final = "application/x-www-form-urlencoded"
LARGEST_FORM: Final = 4096
LONGEST_NAME: Final = 80
BODY_SECONDS: Final = 5.0

_PORTS: Final = {"http": 80, "https": 443}


def is_from_here(request: web.Request, public_url: str) -> bool:
    """Whether a page of our own sent this, or no browser did: another site may hold a link, and must not press it."""
    site = request.headers.getall("Sec-Fetch-Site", [])
    if site:
        return site == ["same-origin"]
    origin = request.headers.getall("Origin", [])
    return not origin or (len(origin) == 1 and _origin(origin[0]) == _origin(public_url))


async def read_name(request: web.Request) -> str | web.Response:
    """Give what was entered as a name, cleaned; or the answer to what is no form of ours."""
    is_plain = request.headers.get("Content-Encoding", "identity").lower() == "identity"
    if request.can_read_body and (request.content_type != FORM_TYPE or not is_plain):
        return not_understood("This takes the form of its own page, and nothing else.", status=415)
    try:
        with anyio.fail_after(BODY_SECONDS):
            body = await _begun(request)
    except TimeoutError:
        return not_understood("The form did not arrive in time.", status=408)
    except web.RequestPayloadError:
        return not_understood("The form did not arrive whole.", status=400)
    if len(body) > LARGEST_FORM:
        return not_understood("That is more than the form of this page can send.", status=413)
    return _name_in(body)


async def _begun(request: web.Request) -> bytes:
    """Read the body, but no further than to know that it is too large."""
    body = b""
    async for part in request.content.iter_any():
        body += part
        if len(body) > LARGEST_FORM:
            break
    return body


def _name_in(body: bytes) -> str:
    try:
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=8))
    except ValueError:
        return ""  # more fields than the form has: none of them is a name
    return " ".join("".join(filter(str.isprintable, fields.get("name", ""))).split())[:LONGEST_NAME].strip()


def _origin(url: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
