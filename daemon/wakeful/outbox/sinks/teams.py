"""Microsoft Teams, by the URL of a workflow, or of a connector that still lives: an Adaptive Card in a message.

Success is 202 (the workflow has taken it: whether it posts the card only a person sees), 200 with the body "1" (a
connector), or 200 with nothing (a workflow whose maker let it respond). A connector says 200 to a failure, too, and
what it was in the body. The URL is opaque: hosts and forms of it have changed, and its signature is kept byte for byte.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from wakeful.outbox.cards.adaptive import adaptive_message
from wakeful.outbox.sinks.exchange import Reply, Request
from wakeful.outbox.sinks.posting import JSON_TYPE, Dialect
from wakeful.outbox.sinks.protocol import Answer, Sent
from wakeful.outbox.sinks.verdicts import (
    NEVER_ACCEPTED,
    NEVER_ACCEPTED_BY_VENDORS,
    misunderstood,
    named,
    refused,
)
from wakeful.store.outbox import Delivery

PACE: Final = 0.5  # more than four a second are refused
SMALLER_BYTES: Final = 7000

_HIDDEN_STATUS: Final = re.compile(r"returned HTTP error (\d{3})\b")
_SWITCHED_OFF: Final = re.compile(
    r"WorkflowTriggerIsNotEnabled|TriggerDisabled|WorkflowDisabled", re.IGNORECASE
)


def _request(delivery: Delivery, _key: str) -> Request:
    return Request(body=adaptive_message(delivery.body), headers=JSON_TYPE)


def _smaller(delivery: Delivery, _key: str) -> Request:
    return Request(body=adaptive_message(delivery.body, SMALLER_BYTES), headers=JSON_TYPE)


def _is_too_large(reply: Reply) -> bool:
    hidden = _HIDDEN_STATUS.search(reply.text) if reply.status == 200 else None
    return 413 in (reply.status, hidden and int(hidden[1]))


def _judge(reply: Reply) -> Answer:
    if reply.status == 202:
        return misunderstood(reply, "") if reply.is_page else Sent("202 Accepted by the workflow")
    if reply.status == 200:
        return _of_connector(reply)
    if _SWITCHED_OFF.search(reply.text):
        return refused(reply, never=NEVER_ACCEPTED, because="the workflow is switched off")
    return refused(reply, never=NEVER_ACCEPTED_BY_VENDORS)


def _of_connector(reply: Reply) -> Answer:
    hidden = _HIDDEN_STATUS.search(reply.text)
    if hidden:
        meant = replace(reply, status=int(hidden[1]))
        because = f"said in the body of a {named(reply.status)}"
        return refused(meant, never=NEVER_ACCEPTED_BY_VENDORS, because=because)
    if reply.whole and not reply.is_page and reply.text.strip() in ("", "1"):
        return Sent("200 OK")
    return misunderstood(reply, "its body is none that Teams gives")


TEAMS: Final = Dialect(
    request=_request,
    judge=_judge,
    smaller=_smaller,
    too_large=_is_too_large,
    pace=PACE,
    reads=frozenset({200}),
)
