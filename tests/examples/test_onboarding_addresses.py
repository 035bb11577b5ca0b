"""The guard that keeps the crawler out of the network it runs in."""

from __future__ import annotations

import socket

import aiohttp
import pytest

from onboarding.crawl.addresses import (
    GuardedResolver,
    PrivateAddress,
    check_literal,
    connect_target,
    is_public,
)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_ordinary_addresses_are_public(address: str) -> None:
    assert is_public(address)


def test_an_address_in_the_url_is_checked_too() -> None:
    with pytest.raises(PrivateAddress):
        check_literal("169.254.169.254", frozenset())
    with pytest.raises(PrivateAddress):
        check_literal("::1", frozenset())
    check_literal("127.0.0.1", frozenset({"127.0.0.1"}))
    check_literal("8.8.8.8", frozenset())
    check_literal("shop.example", frozenset())


def test_the_nearest_entry_tells_where_to_connect() -> None:
    table = {"*.test": ("a", 1), "*.deep.test": ("b", 2), "one.deep.test": ("c", 3)}

    hosts = ("x.test", "y.x.test", "x.deep.test", "one.deep.test", "test", "other.example")
    assert [connect_target(host, table) for host in hosts] == [
        ("a", 1),
        ("a", 1),
        ("b", 2),
        ("c", 3),
        None,
        None,
    ]


async def test_a_name_that_leads_to_loopback_is_refused_unless_it_is_listed() -> None:
    def resolver(private_hosts: frozenset[str]) -> GuardedResolver:
        return GuardedResolver(aiohttp.ThreadedResolver(), connect_to={}, private_hosts=private_hosts)

    with pytest.raises(PrivateAddress, match="localhost leads to a private address"):
        await resolver(frozenset()).resolve("localhost", 80)
    allowed = await resolver(frozenset({"localhost"})).resolve("LOCALHOST", 80)

    assert {answer["host"] for answer in allowed} <= {"127.0.0.1", "::1"}


async def test_a_name_below_invalid_is_never_looked_up() -> None:
    resolver = GuardedResolver(aiohttp.ThreadedResolver(), connect_to={}, private_hosts=frozenset())

    with pytest.raises(socket.gaierror):
        await resolver.resolve("shop.invalid", 80)
