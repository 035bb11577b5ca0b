"""PagerDuty, by its Events API, version 2. Success is 202, and nothing else.

The key of the integration is the sink's `key`; its address has a default, and is another for accounts in Europe. A
resolved alert resolves its incident; since both bear one key, a repeat changes nothing.
"""

from __future__ import annotations

from typing import Final

from wakeful.outbox.cards.incidents import pagerduty_event
from wakeful.outbox.sinks.exchange import Reply, Request
from wakeful.outbox.sinks.posting import JSON_TYPE, Dialect
from wakeful.outbox.sinks.protocol import Answer, Sent
from wakeful.outbox.sinks.verdicts import NEVER_ACCEPTED_BY_VENDORS, misunderstood, refused
from wakeful.store.outbox import Delivery

ADDRESS: Final = "https://events.pagerduty.com/v2/enqueue"
PACE: Final = 0.6  # 120 a minute and key
SMALLER_BYTES: Final = 5000


def _request(delivery: Delivery, key: str) -> Request:
    return Request(body=pagerduty_event(delivery.body, key), headers=JSON_TYPE)


def _smaller(delivery: Delivery, key: str) -> Request:
    return Request(body=pagerduty_event(delivery.body, key, SMALLER_BYTES), headers=JSON_TYPE)


def _judge(reply: Reply) -> Answer:
    if reply.status == 202:
        return misunderstood(reply, "") if reply.is_page else Sent("202 Accepted")
    return refused(reply, never=NEVER_ACCEPTED_BY_VENDORS)


PAGERDUTY: Final = Dialect(request=_request, judge=_judge, smaller=_smaller, pace=PACE, address=ADDRESS)
