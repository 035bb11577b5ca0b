"""The road to the network: each way in which a request fails, with real servers, and each promise of politeness."""

from __future__ import annotations

import gzip
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import anyio
import pytest
from yarl import URL

from onboarding.crawl.fetch import Fetcher, Reply, Want, open_session
from onboarding.crawl.robots import parse_robots
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.retry_after import parse_retry_after
from onboarding.settings import CrawlSettings
from support.websites import Answer, Website, data, hang_up, page, redirect, silence, website

HTML = Want(types=("text/html",), max_bytes=1000)
SETTINGS = CrawlSettings(delay=0.0, request_timeout=5.0, user_agent="TestCrawler/1.0")


@dataclass(frozen=True, slots=True)
class Road:
    """A fetcher and the site that it asks."""

    fetcher: Fetcher
    site: Website

    async def get(self, url: str, want: Want = HTML) -> Reply:
        return await self.fetcher.get(URL(url), want)

    async def trouble(self, url: str, want: Want = HTML) -> ChannelTrouble:
        """The trouble that asking for `url` ends in."""
        with pytest.raises(ChannelTrouble) as caught:
            await self.get(url, want)
        return caught.value


@asynccontextmanager
async def road(answers: Mapping[str, Answer], settings: CrawlSettings = SETTINGS) -> AsyncIterator[Road]:
    async with website(answers) as site:
        connect_to = {**site.connect_to, **settings.connect_to}
        settings = replace(settings, connect_to=connect_to)
        async with open_session(settings) as session:
            yield Road(Fetcher(session, settings), site)


async def test_a_page_comes_with_its_address_type_and_charset() -> None:
    answers = {"/a": page("<p>\u00fc", content_type="text/html; charset=UTF-8")}
    async with road(answers) as way:
        reply = await way.get("http://shop.test/a")

    assert (reply.url, reply.content_type, reply.charset) == (URL("http://shop.test/a"), "text/html", "UTF-8")
    assert reply.body == "<p>\u00fc".encode()


async def test_the_crawler_says_who_it_is_and_keeps_no_cookies() -> None:
    seen: list[tuple[str, str | None]] = []

    async def answer(request: object) -> object:
        headers = request.headers  # type: ignore[attr-defined]
        seen.append((headers["User-Agent"], headers.get("Cookie")))
        return await page("x", Set_Cookie="id=1")(request)  # type: ignore[arg-type]

    async with road({"/a": answer, "/b": answer}) as way:  # type: ignore[dict-item]
        await way.get("http://shop.test/a")
        await way.get("http://shop.test/b")

    assert seen == [("TestCrawler/1.0", None)] * 2


async def test_an_unknown_name_is_dns() -> None:
    async with road({}) as way:
        trouble = await way.trouble("http://nowhere.invalid/")

    assert trouble.kind == "dns"
    assert "nowhere.invalid" in str(trouble)


async def test_a_name_that_no_resolver_takes_is_dns() -> None:
    async with road({}) as way:
        for host in (f"{'a' * 70}.example", "a..example", f"{'a.' * 130}example"):
            assert (await way.trouble(f"http://{host}/")).kind in ("dns", "broken")


async def test_a_closed_port_is_refused() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings = replace(SETTINGS, connect_to={"closed.test": closed.getsockname()})
        async with road({}, settings) as way:
            trouble = await way.trouble("http://closed.test/")

    assert trouble.kind == "refused"


async def test_a_silent_server_is_a_timeout() -> None:
    async with road({"/slow": silence}, replace(SETTINGS, request_timeout=0.2)) as way:
        trouble = await way.trouble("http://shop.test/slow")

    assert str(trouble) == "timeout: http://shop.test/slow gave no answer in 0.2 s"


async def test_an_answer_that_breaks_off_is_broken() -> None:
    async with road({"/half": hang_up}) as way:
        trouble = await way.trouble("http://shop.test/half")

    assert trouble.kind == "broken"


async def test_tls_with_a_server_that_speaks_none() -> None:
    async with road({}) as way:
        trouble = await way.trouble("https://shop.test/")

    assert trouble.kind == "tls"


@pytest.mark.parametrize("status", [401, 403, 451])
async def test_a_refusal_of_the_server_is_forbidden(status: int) -> None:
    async with road({"/a": page("no", status=status)}) as way:
        trouble = await way.trouble("http://shop.test/a")

    assert (trouble.kind, trouble.http_status) == ("forbidden", status)


async def test_too_many_requests_come_with_the_pause_that_is_asked_for() -> None:
    async with road({"/a": page("", status=429, Retry_After="17"), "/b": page("", status=429)}) as way:
        told = await way.trouble("http://shop.test/a")
        untold = await way.trouble("http://shop.test/b")

    assert (told.kind, told.http_status, told.retry_after) == ("rate_limited", 429, 17.0)
    assert (untold.kind, untold.retry_after) == ("rate_limited", None)


@pytest.mark.parametrize("status", [204, 304, 404, 500, 503])
async def test_any_other_status_is_named(status: int) -> None:
    async with road({"/a": page("", status=status)}) as way:
        trouble = await way.trouble("http://shop.test/a")

    assert (trouble.kind, trouble.http_status) == ("http", status)


async def test_another_type_or_too_much_is_not_read() -> None:
    answers = {"/pdf": page("%PDF", content_type="application/pdf"), "/large": page("x" * 1001)}
    async with road(answers) as way:
        assert (await way.trouble("http://shop.test/pdf")).kind == "content_type"
        assert (await way.trouble("http://shop.test/large")).kind == "too_large"


async def test_the_limit_counts_what_comes_out_of_a_packed_answer() -> None:
    packed = gzip.compress(b"x" * 5_000_000)
    assert len(packed) < 10_000

    async def answer(request: object) -> object:
        response = await data(packed, "text/html")(request)  # type: ignore[arg-type]
        response.headers["Content-Encoding"] = "gzip"
        return response

    async with road({"/bomb": answer}) as way:  # type: ignore[dict-item]
        trouble = await way.trouble("http://shop.test/bomb")

    assert trouble.kind == "too_large"


async def test_a_redirect_within_the_site_is_followed() -> None:
    answers = {
        "/old": redirect("/new", 301),
        "/new": redirect("http://www.shop.test/newest", 308),
        "/newest": page("here"),
    }
    async with road(answers) as way:
        reply = await way.get("http://shop.test/old")

    assert reply.url == URL("http://www.shop.test/newest")


async def test_a_redirect_to_another_site_is_not() -> None:
    async with road({"shop.test/": redirect("http://evil.test/"), "evil.test/": page("x")}) as way:
        trouble = await way.trouble("http://shop.test/")

        assert trouble.kind == "off_site"
        assert "evil.test/" not in way.site.asked


@pytest.mark.parametrize("location", ["", "ftp://shop.test/", "http://[broken", "javascript:alert(1)"])
async def test_a_redirect_to_no_web_address_is_named(location: str) -> None:
    async with road({"/a": redirect(location)}) as way:
        trouble = await way.trouble("http://shop.test/a")

    assert trouble.kind == "http"


async def test_a_circle_of_redirects_ends() -> None:
    async with road({"/a": redirect("/b"), "/b": redirect("/a")}) as way:
        trouble = await way.trouble("http://shop.test/a")

    assert str(trouble) == "http: http://shop.test/a redirects more than 5 times"


async def test_private_addresses_are_not_reached_by_name_number_or_redirect() -> None:
    async with road({"/": redirect("http://shop.test:1/")}) as way:
        port = way.site.port
        by_name = await way.trouble(f"http://localhost:{port}/")
        by_number = await way.trouble(f"http://127.0.0.1:{port}/")
        by_six = await way.trouble(f"http://[::1]:{port}/")
        odd = await way.trouble(f"http://2130706433:{port}/")

        assert way.site.asked == []
    assert [by_name.kind, by_number.kind, by_six.kind] == ["private_address"] * 3
    assert odd.kind in ("private_address", "broken")


async def test_a_listed_private_host_is_reached() -> None:
    async with road({"/": page("x")}, replace(SETTINGS, private_hosts=frozenset({"127.0.0.1"}))) as way:
        reply = await way.get(f"http://127.0.0.1:{way.site.port}/")

    assert reply.body == b"x"


async def test_what_robots_txt_forbids_is_not_asked_for() -> None:
    robots = "User-agent: *\nDisallow: /\n\nUser-agent: TestCrawler\nDisallow: /*.cgi$\nDisallow: /a\nAllow: /a/b\n"
    async with road({"/robots.txt": page(robots, "text/plain"), "/a/b": page("x")}) as way:
        trouble = await way.trouble("http://shop.test/a/c")
        await way.get("http://shop.test/a/b")
        assert (await way.trouble("http://shop.test/x.cgi")).kind == "robots"

        assert str(trouble) == "robots: robots.txt forbids /a/c"
        assert way.site.asked == ["shop.test/robots.txt", "shop.test/a/b"]


async def test_a_redirect_into_what_robots_txt_forbids_is_not_followed() -> None:
    answers = {
        "/robots.txt": page("User-agent: *\nDisallow: /back", "text/plain"),
        "/front": redirect("/back"),
    }
    async with road(answers) as way:
        assert (await way.trouble("http://shop.test/front")).kind == "robots"


async def test_each_host_has_a_robots_txt_of_its_own_that_is_read_once() -> None:
    answers = {
        "one.test/robots.txt": page("User-agent: *\nDisallow: /", "text/plain"),
        "two.test/": page("x"),
    }
    async with road(answers) as way:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(way.get, "http://two.test/")
        assert (await way.trouble("http://one.test/")).kind == "robots"

        assert way.site.asked.count("two.test/robots.txt") == 1


async def test_without_a_robots_txt_all_may_be_read() -> None:
    for status in (404, 403, 410):
        async with road({"/robots.txt": page("", status=status), "/a": page("x")}) as way:
            assert (await way.get("http://shop.test/a")).body == b"x"


async def test_while_robots_txt_can_not_be_read_nothing_is() -> None:
    async with road({"/robots.txt": page("", status=503), "/a": page("x")}) as way:
        trouble = await way.trouble("http://shop.test/a")
        assert (trouble.kind, trouble.http_status) == ("robots", 503)
    async with road({"/robots.txt": page("", status=429, Retry_After="9"), "/a": page("x")}) as way:
        trouble = await way.trouble("http://shop.test/a")
        assert (trouble.kind, trouble.retry_after) == ("rate_limited", 9.0)


async def test_requests_to_one_host_keep_the_longer_of_both_pauses() -> None:
    answers = {"/robots.txt": page("User-agent: *\nCrawl-delay: 0.15", "text/plain"), "/a": page("x")}
    async with road(answers, replace(SETTINGS, delay=0.01)) as way:
        await way.get("http://shop.test/a")
        started = anyio.current_time()
        await way.get("http://shop.test/a")
        await way.get("http://shop.test/a")

        assert anyio.current_time() - started >= 0.25


def test_a_pause_that_is_no_sensible_number_is_none_or_bounded() -> None:
    def delay(text: str) -> float:
        return parse_robots(f"User-agent: *\nCrawl-delay: {text}", 200).delay("TestCrawler")

    assert [delay(text) for text in ("nan", "inf", "-5", "soon", "", "1e9", "2.5")] == [
        0,
        0,
        0,
        0,
        0,
        3600,
        2.5,
    ]


def test_retry_after_is_seconds_or_a_date_within_a_day() -> None:
    now = datetime(2025, 1, 6, 12, 0, 0, tzinfo=UTC)

    assert parse_retry_after("30", now) == 30.0
    assert parse_retry_after("Mon, 06 Jan 2025 12:01:30 GMT", now) == 90.0
    assert parse_retry_after("Mon, 06 Jan 2025 11:00:00 GMT", now) == 0.0
    assert parse_retry_after("99999999999999999999", now) == 86_400.0
    assert parse_retry_after("Mon, 06 Jan 2075 11:00:00 GMT", now) == 86_400.0
    assert [parse_retry_after(text, now) for text in (None, "", "soon", "-1", "\u0663\u0660")] == [None] * 5
