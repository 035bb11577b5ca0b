"""The server's own life: the port, and an end that no client can delay."""

from __future__ import annotations

import io
import signal
import socket
import time

import anyio
import pytest
from aiohttp import web

from support.serving import Served, serving
from wakeful.core.settings import HttpSettings, LogSettings
from wakeful.errors import ConfigError
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import HTTP_MOVED, HTTP_STARTED, HTTP_STOPPED
from wakeful.telemetry.health import Health
from wakeful.telemetry.logging import configure_logging
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.recorder import Recorder
from wakeful.telemetry.redaction import Redactor
from wakeful.web.app import serve_http, url_of
from wakeful.web.keys import STOP

CLOSED_WITHIN = 3.0


async def test_it_says_where_it_is_and_when_it_is_gone() -> None:
    async with serving() as served:
        started = served.recorder.of(HTTP_STARTED)
    stopped = served.recorder.of(HTTP_STOPPED)

    assert started == [{"url": f"http://127.0.0.1:{served.port}/", "host": "127.0.0.1", "port": served.port}]
    assert len(stopped) == 1
    with pytest.raises(OSError, match="All connection attempts failed"):
        await anyio.connect_tcp("127.0.0.1", served.port)


async def test_a_taken_port_is_said_plainly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"http.port: 127.0.0.1:{port} is taken by another process"):
            await _serve(HttpSettings(port=port))


async def test_where_it_may_move_it_takes_the_next_free_port_and_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]

        async with anyio.create_task_group() as group:
            recorder, telemetry = Recorder(), Telemetry(strict=True)
            telemetry.subscribe(recorder)
            port = await group.start(_serve_near, HttpSettings(port=wanted), telemetry)
            group.cancel_scope.cancel()

    assert port > wanted
    assert recorder.of(HTTP_MOVED) == [{"wanted": wanted, "port": port}]


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "192.0.2.1"])
async def test_a_host_that_is_not_ours_is_a_mistake_of_the_configuration(host: str) -> None:
    with pytest.raises(ConfigError, match=r"http\.host: "):
        await _serve(HttpSettings(host=host, port=0))


async def test_a_name_with_several_addresses_is_served_on_all_of_them_by_one_port() -> None:
    async with serving(HttpSettings(host="localhost", port=0)) as served:
        found = socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)
        for host in {str(address[0]) for _, _, _, _, address in found}:
            async with await anyio.connect_tcp(host, served.port) as stream:
                await stream.send(b"GET /livez HTTP/1.0\r\n\r\n")
                assert (await stream.receive()).startswith(b"HTTP/1.0 200")


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80/"), ("0.0.0.0", "http://127.0.0.1:80/"), ("::", "http://[::1]:80/")],
)
def test_the_address_can_be_opened(host: str, url: str) -> None:
    assert url_of(host, 80) == url


@pytest.mark.case("F44")
async def test_no_client_delays_its_end() -> None:
    """F44: idle connections, streams, half a request, half a body, and a handler that does not end."""
    async with serving(routes=[web.get("/stream", _stream), web.get("/hang", _hang)]) as served:
        idle = [await _opened(served, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(20)]
        streams = [await _opened(served, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(5)]
        for stream in (*idle, *streams):
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")
        others = [
            await _opened(served, b"GET /livez HT"),
            await _opened(served, b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"),
            await _opened(served, b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n"),
            await _opened(served, b""),
        ]

        served.stop.set()
        began = time.monotonic()
        served.scope.cancel()
        await served.recorder.seen(HTTP_STOPPED)
        seconds = time.monotonic() - began

    assert seconds < CLOSED_WITHIN
    for stream in (*idle, *streams, *others):
        await stream.aclose()


@pytest.mark.case("F44")
async def test_streams_end_with_the_stop_and_the_server_goes_on() -> None:
    async with serving(routes=[web.get("/stream", _stream)]) as served:
        async with served.client.get(f"http://127.0.0.1:{served.port}/stream") as response:
            served.stop.set()
            with anyio.fail_after(5):
                text = await response.text()
        status, _ = await served.get("/livez")

    assert text == "hello\ngoodbye\n"
    assert status == 200


async def test_it_leaves_signals_alone() -> None:
    before = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)]

    async with serving():
        during = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)]

    assert before == during


async def test_what_is_no_http_is_refused_without_a_word_in_the_log() -> None:
    log = io.StringIO()
    undo = configure_logging(LogSettings(format="json"), Redactor(), stream=log)
    try:
        async with serving() as served:
            for garbage in (
                b"\x16\x03\x01\x02\x00\x01\x00",
                b"GET / HTTP/9.9\r\n\r\n",
                b"GET /" + b"x" * 20_000,
            ):
                async with await _opened(served, garbage + b"\r\n\r\n") as stream:
                    assert (await stream.receive()).startswith(b"HTTP/1.0 400")
            packed = b"Host: x\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nno gzip ."
            async with await _opened(served, b"POST /livez HTTP/1.1\r\n" + packed) as stream:
                assert (await stream.receive()).startswith(b"HTTP/1.1 405")
            assert (await served.get("/livez"))[0] == 200
    finally:
        undo()

    assert log.getvalue() == ""


async def _serve(settings: HttpSettings) -> None:
    await serve_http(settings, Health(), Metrics(), Telemetry(strict=True), anyio.Event())


async def _serve_near(
    settings: HttpSettings, telemetry: Telemetry, *, task_status: anyio.abc.TaskStatus[int]
) -> None:
    await serve_http(
        settings,
        Health(),
        Metrics(),
        telemetry,
        anyio.Event(),
        port_fallback=True,
        task_status=task_status,
    )


async def _opened(served: Served, text: bytes) -> anyio.abc.SocketStream:
    stream = await anyio.connect_tcp("127.0.0.1", served.port)
    if text:
        await stream.send(text)
    return stream


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"hello\n")
    await request.app[STOP].wait()
    await response.write(b"goodbye\n")
    return response


async def _hang(_request: web.Request) -> web.Response:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(3600)
    return web.Response()
