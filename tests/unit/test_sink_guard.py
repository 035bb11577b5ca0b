"""The guard against addresses inside: judged on what is connected to, in every form that an address can be written."""

from __future__ import annotations

import pytest

from support.receiver import running_receiver
from support.vendors import outcome, tried
from wakeful.core.settings import SinkAddresses, SinkSettings
from wakeful.outbox.sinks import Failed, Sink, build_sinks
from wakeful.outbox.sinks.guard import is_public
from wakeful.telemetry.bus import Telemetry


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2002:7f00:1::"),
        *("2002:0a00:0001::1", "localhost", ""),
        # Retired or not given out, and routed inside by whoever still has them.
        *("fec0::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "5f00::1", "4000::1"),
    ],
)
def test_what_is_inside_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "2a00:1450::1", "64:ff9b::808:808"]
)
def test_what_is_outside_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.case("F79")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0"],
)
async def test_a_url_of_somebody_else_leads_nowhere_inside(host: str) -> None:
    async with running_receiver() as receiver:
        answered = await tried(_sink(receiver.url.replace("127.0.0.1", host), "public"))

    assert outcome(answered) == "retry"
    assert receiver.received == []


async def test_why_it_was_refused_is_told_without_the_url() -> None:
    async with running_receiver() as receiver:
        for host in ("127.0.0.1", "localhost"):
            answered = await tried(_sink(receiver.url.replace("127.0.0.1", host), "public"))
            assert isinstance(answered, Failed)
            assert "it leads to an address that is not public" in answered.reason
            assert "SECRET0" not in answered.reason


async def test_a_url_of_the_operator_may_lead_inside() -> None:
    async with running_receiver() as receiver:
        assert outcome(await tried(_sink(receiver.url, "any"))) == "sent"


def _sink(url: str, addresses: SinkAddresses) -> Sink:
    settings = SinkSettings(kind="webhook", url=url, addresses=addresses, timeout=30)
    (sink,) = build_sinks({"hook": settings}, Telemetry(strict=True))
    return sink
