"""Discord, by a webhook: an embed. Success is 204, or 200 with the message where the URL asks for it by `wait=true`.

Discord takes about thirty messages a minute and channel; how long to wait stands in `Retry-After`, in
`X-RateLimit-Reset-After` and in the body of a 429.
"""

from __future__ import annotations

import json
from typing import Final

from wakeful.outbox.cards.embeds import discord_message
from wakeful.outbox.cards.shortening import Room
from wakeful.outbox.sinks.exchange import Reply, Request
from wakeful.outbox.sinks.posting import JSON_TYPE, Dialect
from wakeful.outbox.sinks.protocol import Answer, Sent
from wakeful.outbox.sinks.verdicts import NEVER_ACCEPTED_BY_VENDORS, misunderstood, refused
from wakeful.store.outbox import Delivery

PACE: Final = 2.1
UNKNOWN_WEBHOOK: Final = 10015
INVALID_FORM: Final = 50035  # a text or a list of it is too long
SMALLER: Final = Room(text=200, entries=5, lines=500)


def _request(delivery: Delivery, _key: str) -> Request:
    return Request(body=discord_message(delivery.body), headers=JSON_TYPE)


def _smaller(delivery: Delivery, _key: str) -> Request:
    return Request(body=discord_message(delivery.body, SMALLER), headers=JSON_TYPE)


def _is_too_large(reply: Reply) -> bool:
    return reply.status == 413 or (reply.status == 400 and _code(reply) == INVALID_FORM)


def _judge(reply: Reply) -> Answer:
    if reply.status == 204:
        return Sent("204 No Content")
    if reply.status == 200:
        # The message comes back with all that is in it, so its beginning has to do.
        is_message = reply.text.lstrip().startswith("{") and '"id"' in reply.text
        return Sent("200 OK") if is_message else misunderstood(reply, "no message came back")
    gone = reply.status == 404 and _code(reply) == UNKNOWN_WEBHOOK
    return refused(
        reply, never=NEVER_ACCEPTED_BY_VENDORS, gone=gone, because="the webhook was deleted" if gone else ""
    )


def _code(reply: Reply) -> object:
    try:
        document = json.loads(reply.text)
    except (ValueError, RecursionError):
        return None
    return document.get("code") if isinstance(document, dict) else None


DISCORD: Final = Dialect(
    request=_request,
    judge=_judge,
    smaller=_smaller,
    too_large=_is_too_large,
    pace=PACE,
    reads=frozenset({200}),
)
