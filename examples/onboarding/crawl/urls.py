"""Addresses: which ones a visit accepts, how a reference on a page becomes one, and what belongs to the same site.

Pure. Invariant: a URL that leaves this module is http or https, has a host, no credentials and no fragment.
"""

from __future__ import annotations

from typing import Final

from yarl import URL

_WEB: Final = ("http", "https")
_LONGEST: Final = 2048


def parse_site(text: str) -> URL:
    """The address of a place's site. Raises ValueError with a reason that can be shown to whoever gave it."""
    try:
        url = URL(text.strip())
    except ValueError as error:
        raise ValueError(f"the address can't be read: {error}") from None
    if url.scheme not in _WEB or not url.host:
        raise ValueError("the address must begin with http:// or https:// and a host")
    if url.user is not None or url.password is not None:
        raise ValueError("the address must hold no user name or password")
    return url.with_fragment(None)


def join(base: URL, reference: str) -> URL | None:
    """What `reference` on the page `base` points at; None when it is no web address (mailto:, data:, rubbish)."""
    text = reference.strip()
    if not text or len(text) > _LONGEST:
        return None
    try:
        url = base.join(URL(text)).with_fragment(None)
        return url if url.scheme in _WEB and url.host and url.user is None and url.password is None else None
    except ValueError:
        return None


def origin(url: URL) -> URL:
    """Scheme, host and port: what a robots.txt speaks for."""
    return url.origin()


def same_site(first: URL, second: URL) -> bool:
    """Whether both belong to one site: `www.` and the step from http to https do not make another one."""
    return _site_key(first) == _site_key(second)


def _site_key(url: URL) -> tuple[str, int | None]:
    host = (url.host or "").lower().rstrip(".").removeprefix("www.")
    return host, None if url.is_default_port() else url.port
