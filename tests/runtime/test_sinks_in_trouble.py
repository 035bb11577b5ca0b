"""Receivers that are slow, broken, hostile or not who they should be: a try costs its time, and little else."""

from __future__ import annotations

import gzip
import json
import os
import ssl
import sys
import tracemalloc
import zlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
import trustme
from aiohttp import web
from standardwebhooks import Webhook

from support.messages import DELIVERY_ID, body, delivery
from support.raw_receiver import Play, raw_receiver, saying, trickling
from support.receiver import Received, Reply, answer, running_receiver
from support.sources import TOP
from support.vendors import KEYS, WEB, outcome, shows_a_secret, sink_of, tried
from wakeful.core.settings import SinkKind
from wakeful.outbox.sinks import Failed

kinds = pytest.mark.parametrize("kind", WEB)
OK = b"HTTP/1.1 200 OK\r\n"
SUCCESS: Mapping[str, Reply] = {
    "webhook": answer(204),
    "teams": answer(202),
    "slack": answer(200, "ok"),
    "discord": answer(204),
    "pagerduty": answer(202),
}
BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "half a head": OK + b"Content-Type: text/pl",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "noise": bytes(range(256)) * 40,
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of 1000": b"HTTP/1.1 1000 OK\r\n\r\n",
    "a line without an end": OK + b"X-Long: " + b"x" * 200_000,
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 7\r\n\r\nok",
    "a negative length": OK + b"Content-Length: -1\r\n\r\nok",
}


@kinds
@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_answer_of_http_is_tried_again(kind: SinkKind, name: str) -> None:
    async with raw_receiver(saying(BROKEN[name])) as receiver:
        answered = await tried(sink_of(kind, receiver.url))

    assert outcome(answered) == "retry", answered
    assert receiver.requests == 1
    assert shows_a_secret([answered], "SECRET0", "s3cr3t", *KEYS.values()) == []


SLOW: dict[str, tuple[Play, str]] = {
    "a head, byte by byte": (trickling(OK + b"X-Long: ", b"x", seconds=0.01), "retry"),
    "a head without an end": (trickling(OK, b"X-More: " + b"x" * 1000 + b"\r\n", seconds=0), "retry"),
    "only promises": (trickling(b"", b"HTTP/1.1 100 Continue\r\n\r\n", seconds=0.001), "retry"),
    "a body, byte by byte": (
        trickling(OK + b"Content-Length: 99999\r\n\r\n", b"o", seconds=0.01),
        "sent",
    ),
    "a failure, byte by byte": (
        trickling(b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n", b"o", seconds=0.01),
        "retry",
    ),
}


@kinds
@pytest.mark.parametrize("name", SLOW)
async def test_a_receiver_that_takes_its_time_costs_the_time_of_one_try(kind: SinkKind, name: str) -> None:
    play, of_webhook = SLOW[name]
    # The status is what a webhook's success is; who reads the body can't tell until it has it.
    meant = of_webhook if kind == "webhook" else "retry"
    tracemalloc.start()
    try:
        async with raw_receiver(play) as receiver:
            sink = sink_of(kind, receiver.url, timeout=30.0 if meant == "sent" else 0.25)
            answered = await tried(sink)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert outcome(answered) == meant, answered
    assert receiver.requests <= 1
    assert most < 8_000_000


ZEROS = bytes(30_000_000)
PACKED = {"gzip": gzip.compress(ZEROS), "deflate": zlib.compress(ZEROS)}


@kinds
@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_is_packed_costs_no_memory(kind: SinkKind, encoding: str, status: int) -> None:
    packed = PACKED[encoding]
    head = f"HTTP/1.1 {status} X\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(packed)}\r\n\r\n"
    tracemalloc.start()
    try:
        async with raw_receiver(saying(head.encode() + packed)) as receiver:
            answered = await tried(sink_of(kind, receiver.url))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert outcome(answered) == ("sent" if (kind, status) == ("webhook", 200) else "retry")
    assert most < 4_000_000  # of thirty


def less_than_at_first(taken: Reply, refused: Reply) -> Reply:
    """A receiver that takes a request only if it is smaller than the first."""
    sizes: list[int] = []

    async def reply(received: Received, request: web.Request) -> web.StreamResponse:
        sizes.append(len(received.body))
        return await (taken if sizes[-1] < sizes[0] else refused)(received, request)

    return reply


SAMPLES = [{"job_id": f"job {n}", "subject": f"{n} 한국어 " * 50, "error": f"{n}" * 300} for n in range(20)]
LARGE = body(
    error="한국어 " * 20_000,
    title="COLLECT died: " + "한국어 " * 500,
    samples=SAMPLES,
    details={"text": "x" * 15_000},
)
TOO_LARGE: list[tuple[SinkKind, Reply]] = [
    *((kind, answer(413)) for kind in WEB),
    ("teams", answer(200, "Microsoft Teams endpoint returned HTTP error 413 with ContextId x")),
    ("slack", answer(400, "invalid_blocks")),
    ("slack", answer(400, "msg_too_long")),
    ("discord", answer(400, '{"message": "Invalid Form Body", "code": 50035}')),
]


@pytest.mark.case("F76")
@pytest.mark.parametrize(("kind", "refused"), TOO_LARGE)
async def test_what_is_too_large_for_a_receiver_goes_out_as_less_and_at_once(
    kind: SinkKind, refused: Reply
) -> None:
    async with running_receiver(otherwise=less_than_at_first(SUCCESS[kind], refused)) as receiver:
        answered = await tried(sink_of(kind, receiver.url), delivery(LARGE))

    assert outcome(answered) == "sent", answered
    first, second = receiver.received
    assert len(second.body) < len(first.body)
    told = second.body.decode()
    for essential in ("COLLECT died", "37", "production", "https://wakeful.example.com/jobs/1", "…[cut]"):
        assert essential in told.replace("\\", ""), essential
    if kind == "webhook":
        assert second.message_id == first.message_id == str(DELIVERY_ID)
        headers = {name.lower(): value for name, value in second.headers.items()}
        assert Webhook(KEYS["webhook"]).verify(second.body, headers)["cut"] is True


@pytest.mark.parametrize(("kind", "refused"), TOO_LARGE)
async def test_what_is_too_large_even_as_the_least_is_given_up_after_two_requests(
    kind: SinkKind, refused: Reply
) -> None:
    async with running_receiver(otherwise=refused) as receiver:
        answered = await tried(sink_of(kind, receiver.url), delivery(LARGE))

    assert outcome(answered) == "never"
    assert len(receiver.received) == 2


@kinds
async def test_what_is_small_is_not_sent_twice_to_a_receiver_that_takes_nothing(kind: SinkKind) -> None:
    async with running_receiver(otherwise=answer(413)) as receiver:
        answered = await tried(sink_of(kind, receiver.url))

    assert outcome(answered) == "never"
    assert len(receiver.received) == 1


@kinds
async def test_trouble_while_less_is_sent_is_no_end_of_the_message(kind: SinkKind) -> None:
    async with running_receiver(
        answer(413), otherwise=answer(429, headers=[("Retry-After", "7")])
    ) as receiver:
        answered = await tried(sink_of(kind, receiver.url), delivery(LARGE))

    assert isinstance(answered, Failed)
    assert (outcome(answered), answered.retry_after) == ("retry", 7.0)


MILLISECONDS: list[tuple[list[tuple[str, str]], float | None]] = [
    ([("Retry-After-Ms", "1500")], 1.5),
    ([("x-ms-retry-after-ms", "20.5")], 0.021),
    ([("Retry-After", "3"), ("Retry-After-Ms", "64000")], 64.0),
    ([("Retry-After", "90"), ("Retry-After-Ms", "64000")], 90.0),
    ([("Retry-After-Ms", "99999999999999")], 3600.0),
    ([("Retry-After-Ms", "-5")], None),
    ([("Retry-After-Ms", "0")], None),
    ([("Retry-After-Ms", "soon")], None),
]


@kinds
@pytest.mark.case("F67")
async def test_a_wait_in_milliseconds_is_one(kind: SinkKind) -> None:
    for headers, seconds in MILLISECONDS:
        async with running_receiver(otherwise=answer(429, headers=headers)) as receiver:
            answered = await tried(sink_of(kind, receiver.url))

        assert isinstance(answered, Failed)
        assert answered.retry_after == seconds, headers


WRONG = {
    "expired": "it has expired",
    "too early": "it is not valid yet",
    "another host's": "it is that of another",
    "its own": "it is signed by itself",
    "a stranger's": "nobody who is trusted here has signed it",
}


def contexts(authority: trustme.CA) -> dict[str, ssl.SSLContext]:
    """TLS of servers, each with another certificate for 127.0.0.1; the first is good."""
    now, day = datetime.now(UTC), timedelta(days=1)
    stranger = trustme.CA()
    certificates = {
        "good": authority.issue_cert("127.0.0.1"),
        "expired": authority.issue_cert("127.0.0.1", not_before=now - 9 * day, not_after=now - day),
        "too early": authority.issue_cert("127.0.0.1", not_before=now + day, not_after=now + 9 * day),
        "another host's": authority.issue_cert("elsewhere.example"),
        "a stranger's": stranger.issue_cert("127.0.0.1"),
    }
    made = {name: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for name in [*certificates, "its own"]}
    for name, certificate in certificates.items():
        certificate.configure_cert(made[name])
    own = trustme.Blob(stranger.private_key_pem.bytes() + stranger.cert_pem.bytes())
    with own.tempfile() as path:
        made["its own"].load_cert_chain(path)
    return made


@pytest.mark.case("F79")
async def test_a_receiver_with_a_wrong_certificate_gets_nothing_and_the_reason_is_told(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    reply = saying(OK + b"Content-Length: 2\r\n\r\nok")
    async with AsyncExitStack() as stack:
        receivers = {
            name: await stack.enter_async_context(raw_receiver(reply, tls=tls))
            for name, tls in contexts(authority).items()
        }
        asked = [(kind, name) for kind in WEB for name in receivers]
        process = await anyio.run_process(
            [sys.executable, "-m", "support.tries_over_tls"],
            input=json.dumps([[kind, receivers[name].url] for kind, name in asked]).encode(),
            cwd=TOP / "tests",
            env={**os.environ, "SSL_CERT_FILE": str(trusted)},
        )

    told = dict(zip(asked, json.loads(process.stdout), strict=True))
    assert receivers["good"].requests == len(WEB)
    assert {kind: told[kind, "good"][0] for kind in ("webhook", "slack")} == {
        "webhook": "sent",
        "slack": "sent",
    }
    for name, why in WRONG.items():
        assert receivers[name].requests == 0
        for kind in WEB:
            found, said = told[kind, name]
            assert (found, why in said, "SECRET0" in said) == ("retry", True, False), (kind, name, said)
