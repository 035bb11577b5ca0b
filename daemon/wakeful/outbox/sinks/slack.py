"""Slack, by an incoming webhook: Block Kit. Success is 200 with the body "ok", and nothing else.

Slack takes about one message a second and channel. Its failures have a word as their body; those that it documents are
told, and those that mean that the webhook no longer exists close the sink.
"""

from __future__ import annotations

from typing import Final

from wakeful.outbox.cards.blocks import slack_message
from wakeful.outbox.sinks.exchange import Reply, Request
from wakeful.outbox.sinks.posting import JSON_TYPE, Dialect
from wakeful.outbox.sinks.protocol import Answer, Sent
from wakeful.outbox.sinks.verdicts import NEVER_ACCEPTED_BY_VENDORS, misunderstood, refused
from wakeful.store.outbox import Delivery

PACE: Final = 1.1
SMALLER_BYTES: Final = 5000

_GONE: Final = frozenset(
    {"invalid_token", "no_active_hooks", "no_service", "no_service_id", "no_team", "team_disabled"}
)
_KNOWN: Final = _GONE | {
    *("action_prohibited", "channel_is_archived", "channel_not_found", "invalid_blocks", "invalid_payload"),
    *(
        "message_limit_exceeded",
        "no_text",
        "posting_to_general_channel_denied",
        "rate_limited",
        "rollup_error",
    ),
    *("too_many_attachments", "user_not_found"),
}

_TOO_LARGE: Final = frozenset({"invalid_blocks", "msg_blocks_too_long", "msg_too_long"})


def _request(delivery: Delivery, _key: str) -> Request:
    return Request(body=slack_message(delivery.body), headers=JSON_TYPE)


def _smaller(delivery: Delivery, _key: str) -> Request:
    return Request(body=slack_message(delivery.body, SMALLER_BYTES), headers=JSON_TYPE)


def _is_too_large(reply: Reply) -> bool:
    return reply.status == 413 or (reply.status == 400 and reply.text.strip() in _TOO_LARGE)


def _judge(reply: Reply) -> Answer:
    word = reply.text.strip() if reply.whole else ""
    if reply.status == 200:
        return Sent("200 ok") if word == "ok" else misunderstood(reply, 'the body is not "ok"')
    said = word if word in _KNOWN else ""
    return refused(reply, never=NEVER_ACCEPTED_BY_VENDORS, gone=word in _GONE, because=said)


SLACK: Final = Dialect(
    request=_request,
    judge=_judge,
    smaller=_smaller,
    too_large=_is_too_large,
    pace=PACE,
    reads=frozenset({200}),
)
