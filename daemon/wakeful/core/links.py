"""Signed links: proof that an address was made by this installation, for one purpose, one thing and some time.

Invariant: a token is good for exactly the purpose, the id and the installation that it was made for, until its time;
with any character changed it is good for nothing. To judge one costs the same whatever is wrong with it, and asks
nobody. Reading the keys is for `wakeful.config`; which links there are for `outbox.links`; pages for `web`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from wakeful.core.alert_settings import AlertSettings
from wakeful.core.settings import Settings

Purpose = Literal["alert", "job", "mute", "acknowledge"]
Verdict = Literal["good", "expired", "forged"]

PARAMETER: Final = "t"
PATHS: Final[Mapping[Purpose, str]] = {
    "alert": "/alerts/{id}",
    "job": "/jobs/{id}",
    "mute": "/alerts/{id}/mute",
    "acknowledge": "/alerts/{id}/acknowledge",
}
# The alert of specimens and tests: no alert has this number, so that their links can be tried and change nothing.
SPECIMEN: Final = "0"
SHORTEST_KEY: Final = 32
MOST_KEYS: Final = 5

_LONGEST_TOKEN: Final = 80
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """Makes and judges tokens. Of several keys the first signs, and all are good; `installation` is part of each token.

    Without a key there are no links, and every token is forged.
    """

    keys: tuple[bytes, ...] = field(repr=False)
    installation: str = ""

    def token(self, purpose: Purpose, of: str, *, expires: int) -> str:
        """Give the token for a purpose and the thing with the id `of`, until `expires`, in seconds of the epoch."""
        return _token(self.keys[0], self._signed(purpose, of, str(expires)), str(expires))

    def judge(self, token: str, purpose: Purpose, of: str, *, now: float) -> Verdict:
        """Say whether a token is good now. One that was made by us and is too old is told from one that was not."""
        expires = token.partition(".")[0]
        plausible = len(token) <= _LONGEST_TOKEN and _SECONDS.fullmatch(expires) is not None
        seconds, given = (expires, token.encode("utf-8", "surrogatepass")) if plausible else ("0", b"")
        signed, is_ours = self._signed(purpose, of, seconds), False
        for key in self.keys:
            is_ours |= hmac.compare_digest(_token(key, signed, seconds).encode(), given)
        if not is_ours:
            return "forged"
        return "good" if now < int(seconds) else "expired"

    def _signed(self, purpose: Purpose, of: str, expires: str) -> bytes:
        parts = ("wakeful link", self.installation, purpose, of, expires)
        # Each with its length, so that no two sets of parts are one text.
        return "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")


def _token(key: bytes, signed: bytes, expires: str) -> str:
    digest = hmac.digest(key, signed, hashlib.sha256)
    return f"{expires}.{urlsafe_b64encode(digest).decode().rstrip('=')}"


def keys_in(text: str) -> tuple[bytes, ...]:
    """Give the keys of a setting: one or more, with blanks between. Raises ValueError, whose text shows none."""
    keys = text.split()
    if text and not keys:
        raise ValueError("is blank")
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise ValueError(f"a key has less than {SHORTEST_KEY} characters: make one by `openssl rand -hex 32`")
    if len(keys) > MOST_KEYS:
        raise ValueError(f"{len(keys)} keys, and at most {MOST_KEYS} are tried: leave old ones out")
    return tuple(key.encode("utf-8", "surrogatepass") for key in keys)


def address(public_url: str, purpose: Purpose, of: str, token: str) -> str:
    """Give the address of a link."""
    return f"{public_url.rstrip('/')}{PATHS[purpose].format(id=of)}?{PARAMETER}={token}"


def missing_for_links(settings: Settings) -> str | None:
    """Say what links need that is not there; None: nothing, messages have them."""
    alerts = settings.alerts
    if alerts.public_url is None:
        return "alerts.public_url is not set"
    if alerts.link_key is None and alerts.link_key_file is None:
        return "alerts.link_key is not set, nor alerts.link_key_file"
    if not settings.http.enabled:
        return "http.enabled is false, and nobody would serve their pages"
    return None


def linked(settings: Settings) -> AlertSettings:
    """Give the settings of alerts, without an address where messages can't have links."""
    if missing_for_links(settings) is None:
        return settings.alerts
    return replace(settings.alerts, public_url=None)
