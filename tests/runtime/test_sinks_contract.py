"""The contract that every sink that posts has to keep: what each answer of each vendor means, and what is never done.

The table says what becomes of a message. Each try goes to a real receiver on loopback, over real connections.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from aiohttp import web

from support.messages import DELIVERY_ID, body, delivery, digest
from support.receiver import (
    Received,
    Reply,
    answer,
    break_off,
    endless,
    hang_up,
    refuse,
    reset,
    running_receiver,
    stall,
)
from support.vendors import KEYS, WEB, outcome, shows_a_secret, sink_of, tried
from wakeful.core.settings import SinkKind
from wakeful.outbox.sinks import Failed

SECRETS = ("SECRET0", "s3cr3t", *KEYS.values())
PAGE = "<!DOCTYPE html><html><body>Log in</body></html>"
HIDDEN = "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error {} with ContextId x"
SWITCHED_OFF = '{"error": {"code": "WorkflowTriggerIsNotEnabled", "message": "disabled"}}'
UNKNOWN_WEBHOOK = '{"message": "Unknown Webhook", "code": 10015}'
DISCORD_MESSAGE = '{"id": "123", "content": ""}'

MOST_CHUNKS = 1000

kinds = pytest.mark.parametrize("kind", WEB)

# Each answer: what it means, for all kinds that are not named.
ANSWERS: dict[str, tuple[Reply, str, Mapping[str, str]]] = {
    "200 ok": (answer(200, "ok"), "retry", {"webhook": "sent", "slack": "sent"}),
    "200 1": (answer(200, "1"), "retry", {"webhook": "sent", "teams": "sent"}),
    "200 empty": (answer(200), "retry", {"webhook": "sent", "teams": "sent"}),
    "200 a message": (answer(200, DISCORD_MESSAGE), "retry", {"webhook": "sent", "discord": "sent"}),
    "200 not ok": (answer(200, "ok, but"), "retry", {"webhook": "sent"}),
    "200 hides 413": (answer(200, HIDDEN.format(413)), "retry", {"webhook": "sent", "teams": "never"}),
    "200 hides 429": (answer(200, HIDDEN.format(429)), "retry", {"webhook": "sent"}),
    "200 hides 410": (answer(200, HIDDEN.format(410)), "retry", {"webhook": "sent", "teams": "gone"}),
    "200 a page": (answer(200, PAGE, content_type="text/html"), "retry", {"webhook": "sent"}),
    "200 a page that hides": (answer(200, PAGE), "retry", {"webhook": "sent"}),
    "201": (answer(201), "retry", {"webhook": "sent"}),
    "202": (answer(202), "retry", {"webhook": "sent", "teams": "sent", "pagerduty": "sent"}),
    "202 a page": (answer(202, PAGE, content_type="text/html"), "retry", {"webhook": "sent"}),
    "204": (answer(204), "retry", {"webhook": "sent", "discord": "sent"}),
    "301": (answer(301), "retry", {}),
    "400": (answer(400, '{"error": {"message": "bad"}}'), "never", {"webhook": "retry"}),
    "400 switched off": (answer(400, SWITCHED_OFF), "never", {"webhook": "retry", "teams": "retry"}),
    "401": (answer(401), "retry", {}),
    "403": (answer(403, "invalid_token"), "retry", {"slack": "gone"}),
    "404": (answer(404), "retry", {}),
    "404 no service": (answer(404, "no_service"), "retry", {"slack": "gone"}),
    "404 unknown": (answer(404, UNKNOWN_WEBHOOK), "retry", {"discord": "gone"}),
    "408": (answer(408), "retry", {}),
    "410": (answer(410, "gone"), "gone", {}),
    "413": (answer(413), "never", {}),
    "422": (answer(422), "never", {}),
    "429": (answer(429), "retry", {}),
    "500": (answer(500, "oops"), "retry", {}),
    "500 a page": (answer(500, PAGE, content_type="text/html"), "retry", {}),
    "503": (answer(503), "retry", {}),
    "599": (answer(599), "retry", {}),
    "hangs up": (hang_up, "retry", {}),
    "reset": (reset, "retry", {}),
    "half an ok": (break_off(200, "ok", missing=5), "retry", {"webhook": "sent"}),
    "half of a failure": (break_off(500, "oo", missing=5), "retry", {}),
    "without an end": (endless(200), "retry", {"webhook": "sent"}),
    "a failure without an end": (endless(500), "retry", {}),
}


@kinds
@pytest.mark.case("F75")
@pytest.mark.parametrize("name", ANSWERS)
async def test_what_an_answer_means(kind: SinkKind, name: str) -> None:
    reply, otherwise, exceptions = ANSWERS[name]
    async with running_receiver(otherwise=reply) as receiver:
        answered = await tried(sink_of(kind, receiver.url))

    assert outcome(answered) == exceptions.get(kind, otherwise), answered
    assert len(receiver.received) == 1
    assert shows_a_secret([answered], *SECRETS) == []


@kinds
async def test_of_an_answer_without_an_end_little_is_read(kind: SinkKind) -> None:
    chunks = 0

    async def pour(_received: Received, request: web.Request) -> web.StreamResponse:
        nonlocal chunks
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        while chunks < MOST_CHUNKS:
            await response.write(b"x" * 65_536)
            chunks += 1
        return response

    async with running_receiver(otherwise=pour) as receiver:
        assert outcome(await tried(sink_of(kind, receiver.url))) == "retry"

    assert chunks < MOST_CHUNKS  # more than all buffers on the way hold


@kinds
async def test_a_receiver_that_never_answers_costs_the_time_of_one_try(kind: SinkKind) -> None:
    async with running_receiver(otherwise=stall) as receiver:
        answered = await tried(sink_of(kind, receiver.url, timeout=0.3))

    assert answered == Failed(reason="no answer in time")
    assert len(receiver.received) == 1


@kinds
@pytest.mark.case("F79")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_leads_nowhere(kind: SinkKind, status: int) -> None:
    async with running_receiver() as elsewhere:
        to = [("Location", elsewhere.url)]
        async with running_receiver(otherwise=answer(status, headers=to)) as receiver:
            answered = await tried(sink_of(kind, receiver.url))

    assert outcome(answered) == "retry"
    assert "redirects are not followed" in str(answered)
    assert elsewhere.received == []


@kinds
async def test_a_server_without_tls_behind_an_address_with_it_is_a_failure(kind: SinkKind) -> None:
    async with running_receiver() as receiver:
        answered = await tried(sink_of(kind, receiver.url.replace("http:", "https:")))

    assert outcome(answered) == "retry"
    assert receiver.received == []
    assert shows_a_secret([answered], *SECRETS) == []


@kinds
async def test_nobody_there_is_a_failure(kind: SinkKind) -> None:
    async with running_receiver() as receiver:
        url = receiver.url
    answered = await tried(sink_of(kind, url))

    assert outcome(answered) == "retry"
    assert shows_a_secret([answered], *SECRETS) == []


DATES = {
    "Tue, 01 Dec 2026 05:01:30 GMT": 90.0,
    "Tue, 01 Dec 2026 04:00:00 GMT": None,
    "Fri, 31 Dec 9999 23:59:59 GMT": 3600.0,
    "Tue, 32 Dec 2026 25:00:00 GMT": None,
}
WAITS: list[tuple[list[str], float | None]] = [
    (["120"], 120.0),
    (["1.5"], 1.5),
    (["-5"], None),
    ([""], None),
    (["0"], None),
    (["9999999999999"], 3600.0),
    (["99999"], 3600.0),
    (["9" * 5000], None),
    (["Infinity"], None),
    (["nan"], None),
    (["soon"], None),
    (["7", "30"], 30.0),
    (["30", "7", "never"], 30.0),
    ([], None),
    *(([date], seconds) for date, seconds in DATES.items()),
]


OTHER_WAYS: list[tuple[list[tuple[str, str]], str, float | None]] = [
    ([], '{"message": "slow down", "retry_after": 0.65, "global": false}', 0.65),
    ([("Retry-After", "3")], '{"retry_after": 64.5}', 64.5),
    ([("X-RateLimit-Reset-After", "12.25")], "", 12.25),
    ([("RateLimit-Reset", "40")], "", 40.0),
    ([], '{"retry_after": -1}', None),
    ([], '{"retry_after": true}', None),
    ([], '{"retry_after": NaN}', None),
    ([], '{"retry_after": 1e999}', None),
    ([], '{"retry_after": "20"}', 20.0),
    ([], '["retry_after"]', None),
    ([], "[" * 4000, None),
]


@kinds
@pytest.mark.case("F67")
@pytest.mark.parametrize("status", [429, 503])
async def test_how_long_a_receiver_asks_to_wait(kind: SinkKind, status: int) -> None:
    date = [("Date", "Tue, 01 Dec 2026 05:00:00 GMT")]
    asked = [(date + [("Retry-After", value) for value in values], "", seconds) for values, seconds in WAITS]
    for headers, text, seconds in [*asked, *OTHER_WAYS]:
        async with running_receiver(otherwise=answer(status, text, headers=headers)) as receiver:
            answered = await tried(sink_of(kind, receiver.url))

        assert isinstance(answered, Failed)
        assert (outcome(answered), answered.retry_after) == ("retry", seconds), (headers, text)


@pytest.mark.parametrize(
    ("kind", "status"), [("slack", 202), ("pagerduty", 200), ("discord", 202), ("teams", 204)]
)
async def test_a_success_of_another_kind_says_why_it_is_none(kind: SinkKind, status: int) -> None:
    async with running_receiver(otherwise=answer(status)) as receiver:
        answered = await tried(sink_of(kind, receiver.url))

    assert "a success here has another status" in str(answered)


@pytest.mark.case("F75")
async def test_an_old_connector_hides_how_long_to_wait_in_a_success() -> None:
    reply = answer(200, HIDDEN.format(429), headers=[("Retry-After", "17")])
    async with running_receiver(otherwise=reply) as receiver:
        answered = await tried(sink_of("teams", receiver.url))

    assert isinstance(answered, Failed)
    assert answered.retry_after == 17.0
    assert "429 Too Many Requests; said in the body of a 200 OK" in answered.reason


@kinds
async def test_each_try_sends_the_same_bytes(kind: SinkKind) -> None:
    message = body(error="한국어 " * 5000)
    async with running_receiver(otherwise=refuse(503)) as receiver:
        sink = sink_of(kind, receiver.url)
        for attempt in (1, 2, 3):
            await tried(sink, delivery(message, attempt=attempt))

    assert len({received.body for received in receiver.received}) == 1
    assert len(receiver.received) == 3
    if kind == "webhook":
        assert {received.message_id for received in receiver.received} == {str(DELIVERY_ID)}


@kinds
@pytest.mark.parametrize(
    "text", [body("alert.resolved"), digest(), body("alert.test"), body("alert.new_kind")]
)
async def test_every_type_of_message_is_posted_as_json(kind: SinkKind, text: str) -> None:
    async with running_receiver(otherwise=refuse(503)) as receiver:
        await tried(sink_of(kind, receiver.url), delivery(text))

    (received,) = receiver.received
    assert received.headers["Content-Type"] == "application/json"
    assert isinstance(json.loads(received.body), dict)
    assert received.path.endswith("?sig=s3cr3t%2Fvalue")  # byte for byte


@pytest.mark.parametrize("kind", [kind for kind in WEB if kind != "webhook"])
@pytest.mark.parametrize("text", ["[]", "{}", "not json", "[" * 50_000])
async def test_what_is_no_message_is_given_up_and_not_sent(kind: SinkKind, text: str) -> None:
    async with running_receiver() as receiver:
        answered = await tried(sink_of(kind, receiver.url), delivery(text))

    assert outcome(answered) == "never"
    assert receiver.received == []


@pytest.mark.case("F76")
@pytest.mark.parametrize("kilobytes", [10, 14, 20, 28, 100])
@pytest.mark.parametrize("letter", ["a", "é", "한", "\N{SLICE OF PIZZA}"])
async def test_a_receiver_that_counts_in_utf_16_takes_each_alert_at_once(kilobytes: int, letter: str) -> None:
    error = letter * (kilobytes * 1024 // len(letter.encode()))
    async with running_receiver(otherwise=answer(202)) as receiver:
        answered = await tried(sink_of("teams", receiver.url), delivery(body(error=error, title=error)))

    assert outcome(answered) == "sent"
    (received,) = receiver.received
    text = received.body.decode("utf-8")
    assert len(text.encode("utf-16-le")) <= 14_000
    assert "…[cut]" in text and "37 times" in text


LIMITS = {"teams": 1 / 4, "slack": 1.0, "discord": 60 / 30, "pagerduty": 60 / 120}


@pytest.mark.case("F74")
@pytest.mark.parametrize("kind", LIMITS)
def test_the_pace_of_a_sink_is_slower_than_the_vendor_allows(kind: SinkKind) -> None:
    assert sink_of(kind, "https://example.com/hook").pace > LIMITS[kind]
