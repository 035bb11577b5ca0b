"""Alerts by HTTP to whatever reads JSON: the stored message, signed after Standard Webhooks where there is a key.

Success is a status of 2xx and nothing else; its body is not waited for. The header `webhook-id` is the same at every
try, so that a receiver can notice a repeat; `webhook-timestamp` is the time of the try.
"""

from __future__ import annotations

import time
from typing import Final

from wakeful.outbox.cards.plain import plain_message
from wakeful.outbox.sinks.exchange import Reply, Request
from wakeful.outbox.sinks.posting import JSON_TYPE, Dialect
from wakeful.outbox.sinks.protocol import Answer, Sent
from wakeful.outbox.sinks.signing import secrets_in, signed_headers
from wakeful.outbox.sinks.verdicts import named, refused
from wakeful.store.outbox import Delivery

ID_HEADER: Final = "webhook-id"
SMALLER_BYTES: Final = 4000


def _request(delivery: Delivery, key: str) -> Request:
    return _signed(plain_message(delivery.body), delivery, key)


def _smaller(delivery: Delivery, key: str) -> Request:
    return _signed(plain_message(delivery.body, SMALLER_BYTES), delivery, key)


def _signed(body: bytes, delivery: Delivery, key: str) -> Request:
    message_id = str(delivery.delivery_id)
    headers = {ID_HEADER: message_id, **JSON_TYPE}
    if key:
        signed = signed_headers(secrets_in(key), message_id=message_id, seconds=int(time.time()), body=body)
        headers |= signed
    return Request(body=body, headers=headers)


def _judge(reply: Reply) -> Answer:
    return Sent(named(reply.status)) if 200 <= reply.status < 300 else refused(reply)


WEBHOOK: Final = Dialect(request=_request, judge=_judge, smaller=_smaller)
