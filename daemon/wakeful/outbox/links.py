"""Which links a message has: to its job and its alert, to take the alert on, and to mute it for an hour.

Invariant: a message's links are made once, when it is, of the database's time, so that they are the same at every try.
What would change nothing is not offered. Tokens are `core.links`'; what stands behind a link is `web`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from wakeful.config import current_signing
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.links import Purpose, Signing, address
from wakeful.errors import ConfigError
from wakeful.store.alerts import Looked

TEST: Final = "alert.test"
MOST_OF_DIGEST: Final = 4

_LABEL: Final = 75
_WHILE_OPEN: Final = frozenset({"alert.opened", "alert.updated", "alert.reminder"})

Link = dict[str, str]
_Wanted = tuple[str, Purpose, str, float]


def links_of(message_type: str, looked: Looked, settings: AlertSettings) -> list[Link]:
    """Give the links of a message about an alert; none where there is no address, or no key that signs them."""
    return _signed(_wanted(message_type, looked, settings), settings, looked.now)


def links_of_digest(
    entries: Sequence[Mapping[str, object]], settings: AlertSettings, now: datetime
) -> list[Link]:
    """Give the links of a digest: to the first of its alerts."""
    wanted: list[_Wanted] = [
        (f"Open: {one['title']}"[:_LABEL], "alert", str(one["alert_id"]), settings.link_lifetime)
        for one in entries[:MOST_OF_DIGEST]
    ]
    return _signed(wanted, settings, now)


def _signed(wanted: Iterable[_Wanted], settings: AlertSettings, now: datetime) -> list[Link]:
    if settings.public_url is None:
        return []
    try:
        signing = current_signing(settings)
    except ConfigError:
        return []  # the file of the key is gone: a message without buttons is better than none
    if not signing.keys:
        return []
    return [_link(signing, settings.public_url, now.timestamp(), one) for one in wanted]


def _wanted(message_type: str, looked: Looked, settings: AlertSettings) -> Iterator[_Wanted]:
    """Each link's label, its purpose, what it is about, and for how many seconds it works."""
    alert, opens, acts = str(looked.alert_id), settings.link_lifetime, settings.action_lifetime
    if message_type == TEST:
        yield "Try a link", "alert", alert, opens
        return
    if looked.job_id is not None:
        yield "Open job", "job", str(looked.job_id), opens
    yield "Open group", "alert", alert, opens
    if message_type in _WHILE_OPEN:
        if looked.state == "open":
            yield "Acknowledge", "acknowledge", alert, acts
        yield "Mute an hour", "mute", alert, acts


def _link(signing: Signing, public_url: str, now: float, wanted: _Wanted) -> Link:
    label, purpose, of, lifetime = wanted
    token = signing.token(purpose, of, expires=int(now + lifetime))
    return {"label": label, "url": address(public_url, purpose, of, token), "purpose": purpose}
