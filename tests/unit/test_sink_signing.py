"""Signatures of webhooks, as the reference package checks them."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from support.messages import DELIVERY_ID, body, delivery
from support.receiver import running_receiver
from support.vendors import tried
from wakeful.core.settings import SinkSettings
from wakeful.outbox.sinks import Failed, build_sinks
from wakeful.outbox.sinks.signing import secrets_in, signed_headers
from wakeful.telemetry.bus import Telemetry

OLD, NEW = ("whsec_" + base64.b64encode(letter * 24).decode() for letter in (b"a", b"b"))
FOREIGN = "whsec_" + base64.b64encode(b"c" * 24).decode()


def test_the_signature_is_the_one_that_the_reference_makes() -> None:
    seconds = int(time.time())
    headers = signed_headers(secrets_in(OLD), message_id="msg", seconds=seconds, body='{"a": "한"}'.encode())

    verified = Webhook(OLD).verify('{"a": "한"}', {"webhook-id": "msg", **headers})

    assert verified == {"a": "한"}


async def test_a_posted_message_is_verified_with_the_old_and_with_the_new_secret() -> None:
    async with running_receiver() as receiver:
        settings = SinkSettings(kind="webhook", url=receiver.url, key=f"{NEW} {OLD}")
        (sink,) = build_sinks({"hook": settings}, Telemetry(strict=True))
        await tried(sink, delivery(body(error="값 오류")))

    (received,) = receiver.received
    headers = {name.lower(): value for name, value in received.headers.items()}
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(received.body, headers)["data"]["alert_id"] == 7
    assert headers["webhook-id"] == str(DELIVERY_ID)
    with pytest.raises(WebhookVerificationError):
        Webhook(FOREIGN).verify(received.body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(received.body + b" ", headers)


async def test_without_a_key_nothing_is_signed() -> None:
    async with running_receiver() as receiver:
        (sink,) = build_sinks(
            {"hook": SinkSettings(kind="webhook", url=receiver.url)}, Telemetry(strict=True)
        )
        await tried(sink)

    assert "webhook-signature" not in {name.lower() for name in receiver.received[0].headers}


@pytest.mark.parametrize("key", ["whsec_c2hvcnQ=", "whsec_not base64!", "whsec_ÄÖ"])
async def test_a_secret_that_is_none_sends_nothing_and_is_not_shown(key: str) -> None:
    async with running_receiver() as receiver:
        settings = SinkSettings(kind="webhook", url=receiver.url, key=key)
        (sink,) = build_sinks({"hook": settings}, Telemetry(strict=True))
        answered = await tried(sink)

    assert isinstance(answered, Failed)
    assert "sinks.hook.key: a signing secret" in answered.reason
    assert not answered.permanent
    assert "c2hvcnQ" not in answered.reason
    assert receiver.received == []
