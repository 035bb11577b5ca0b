"""A whole visit: the bundled sites give what their pages promise, and a site that gives nothing says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from yarl import URL

from onboarding import site as bundled
from onboarding.crawl.fetch import Fetcher, open_session
from onboarding.crawl.survey import CHANNELS, FIRST, TRUST, ChannelReport, Survey, survey
from onboarding.crawl.visit import Visit
from onboarding.places import PLACES, Place, place_for
from onboarding.settings import CrawlSettings
from support.websites import Answer, Website, page, silence, website

SETTINGS = CrawlSettings(delay=0.0, request_timeout=5.0)


async def visit(url: str, settings: CrawlSettings) -> Survey:
    async def report(percent: float, message: str) -> None:
        assert 0.0 <= percent <= 100.0
        assert message

    async with open_session(settings) as session:
        fetcher = Fetcher(session, settings)
        return await survey(Visit(site=URL(url), fetcher=fetcher, settings=settings, report=report))


async def visit_answers(
    answers: Mapping[str, Answer], settings: CrawlSettings = SETTINGS
) -> tuple[Survey, Website]:
    async with website(answers) as site:
        return await visit("http://shop.test/", replace(settings, connect_to=site.connect_to)), site


async def visit_bundled(place_id: str, settings: CrawlSettings = SETTINGS) -> Survey:
    place = next(place for place in PLACES if place.place_id == place_id)
    async with bundled.serve() as site:
        return await visit(place.url, replace(settings, connect_to=site.connect_to))


def outcomes(found: Survey) -> dict[str, str]:
    return {line.channel: line.status for line in found.channels}


def line(found: Survey, channel: str) -> ChannelReport:
    return next(line for line in found.channels if line.channel == channel)


def home(extra: str = "") -> Answer:
    return page(f"<title>Shop</title><h1>Shop</h1>{extra}")


def test_every_channel_is_ranked_once() -> None:
    assert sorted(TRUST) == sorted(CHANNELS)
    assert set(FIRST) < set(CHANNELS)
    assert len(CHANNELS) >= 6


async def test_a_site_in_good_order_gives_something_through_every_channel() -> None:
    found = await visit_bundled("corner-bakery")

    assert set(outcomes(found).values()) == {"ok"}
    assert (found.facts.name, found.facts.theme_colour) == ("The Corner Bakery", "#9a5b2c")
    assert (found.facts.phone, found.facts.email) == ("+44 1632 960131", "hello@corner-bakery.test")
    assert len(found.facts.offers) == 5
    assert [entry.date for entry in found.facts.news] == ["2025-01-06", "2024-12-16"]
    assert [section.title for section in found.facts.sections] == [
        "The Corner Bakery",
        "Our bread",
        "About us",
    ]
    assert all(picture.alt for picture in found.facts.pictures)


async def test_the_other_forms_of_markup_give_as_much() -> None:
    found = await visit_bundled("spoke-and-chain")

    empty = [channel for channel, status in outcomes(found).items() if status != "ok"]
    assert empty == ["sitemap"]
    assert found.facts.opening_hours == ("Mo-Fr 09:00-18:00", "Sa 10:00-16:00")
    assert len(found.facts.pictures) == 3
    assert found.facts.sections[1].url == "http://spoke-and-chain.test/workshop"


async def test_a_plain_site_says_which_channels_it_does_not_have() -> None:
    found = await visit_bundled("lantern-books")

    empty = {line.channel: line.reason for line in found.channels if line.status == "empty"}
    assert empty == {
        "robots": "no robots.txt, so all may be read",
        "sitemap": "no sitemap that lists a page",
        "social": "no OpenGraph or Twitter tags on the home page",
        "contact": "no contact is given",
        "feed": "the pages name no feed",
        "manifest": "the pages name no manifest",
    }
    assert found.facts.known


async def test_each_kind_of_failure_is_a_line_of_the_result_and_the_facts_are_there_all_the_same() -> None:
    found = await visit_bundled("crooked-teapot", replace(SETTINGS, request_timeout=1.0))

    lines = {
        line.channel: (line.status, (line.reason or "").partition(":")[0], line.http_status)
        for line in found.channels
    }
    assert lines == {
        "robots": ("ok", "", 200),
        "sitemap": ("failed", "dns", None),
        "pages": ("ok", "", 200),
        "structured_data": ("failed", "bad_markup", 200),
        "social": ("ok", "", 200),
        "contact": ("failed", "rate_limited", 429),
        "feed": ("failed", "refused", None),
        "menu": ("failed", "timeout", None),
        "manifest": ("failed", "forbidden", 403),
        "images": ("skipped", "robots", None),
    }
    assert found.facts.name == "The Crooked Teapot"
    assert line(found, "menu").duration_ms >= 900


async def test_a_line_of_the_result_has_exactly_these_fields() -> None:
    found = await visit_bundled("corner-bakery")

    for document in found.documents():
        assert list(document) == ["channel", "status", "reason", "http_status", "items", "duration_ms"]
        assert isinstance(document["duration_ms"], int)


async def test_one_page_that_fails_is_no_failure_of_the_pages() -> None:
    answers = {
        "/": home('<a href="/a">a</a><a href="/b">b</a>'),
        "/a": page("", status=500),
        "/b": page("<h1>B</h1>"),
    }
    found, _ = await visit_answers(answers)

    assert line(found, "pages").items == 2


async def test_a_429_among_the_pages_ends_the_reading_and_is_noted() -> None:
    answers = {"/": home('<a href="/a">a</a><a href="/b">b</a>'), "/a": page("", status=429), "/b": page("x")}
    found, site = await visit_answers(answers)

    assert line(found, "pages").status == "ok"
    assert "stopped after 1 pages (rate_limited" in (line(found, "pages").reason or "")
    assert "shop.test/b" not in site.asked


async def test_pages_and_tries_are_bounded() -> None:
    many = "".join(f'<a href="/{number}">x</a>' for number in range(100))
    found, site = await visit_answers({"/": home(many)}, replace(SETTINGS, max_pages=5))

    assert line(found, "pages").items == 1
    assert len([asked for asked in site.asked if asked.rpartition("/")[2].isdigit()]) <= 10


async def test_the_time_for_pages_is_bounded() -> None:
    answers = {"/": home('<a href="/slow">x</a><a href="/b">b</a>'), "/slow": silence, "/b": page("x")}
    found, _ = await visit_answers(answers, replace(SETTINGS, crawl_time=0.2))

    assert line(found, "pages").reason == "stopped after 0.2 s"


async def test_the_time_for_any_other_channel_is_bounded_too() -> None:
    answers = {"/": home('<a href="/menu">x</a>'), "/menu": silence}
    found, _ = await visit_answers(answers, replace(SETTINGS, channel_time=0.3))

    assert (line(found, "menu").status, line(found, "menu").reason) == (
        "failed",
        "timeout: the channel took more than 0.3 s",
    )


async def test_one_page_under_two_addresses_is_read_once() -> None:
    answers = {
        "/": home('<a href="/">h</a><a href="/a">x</a><a href="/a/#top">y</a>'),
        "/a": page("<h1>A</h1>"),
    }
    found, site = await visit_answers(answers)

    assert line(found, "pages").items == 2
    assert site.asked.count("shop.test/a") == 1


async def test_a_contact_that_other_pages_give_outweighs_a_contact_page_that_fails() -> None:
    answers = {"/": home('<a href="tel:+1">x</a><a href="/contact">c</a>'), "/contact": page("", status=403)}
    found, _ = await visit_answers(answers)

    assert line(found, "contact").status == "ok"
    assert (line(found, "contact").reason or "").startswith("forbidden: ")
    assert found.facts.phone == "+1"


async def test_a_sitemap_index_is_followed_to_its_files() -> None:
    index = "<sitemapindex><sitemap><loc>/a.xml</loc></sitemap><sitemap><loc>/b.xml</loc></sitemap></sitemapindex>"
    urlset = (
        "<urlset><url><loc>http://shop.test/{0}</loc></url><url><loc>http://other.test/</loc></url></urlset>"
    )
    answers = {
        "/": home(),
        "/sitemap.xml": page(index, "application/xml"),
        "/a.xml": page(urlset.format("one"), "text/xml"),
        "/b.xml": page(urlset.format("two"), "text/xml"),
        "/one": page("<h1>One</h1>"),
    }
    found, site = await visit_answers(answers)

    assert line(found, "sitemap").items == 2
    assert "other.test/" not in site.asked
    assert [section.title for section in found.facts.sections] == ["Shop", "One"]


async def test_pictures_that_robots_txt_forbids_are_left_out_and_counted() -> None:
    answers = {
        "/robots.txt": page("User-agent: *\nDisallow: /no/", "text/plain"),
        "/": home('<img src="/yes/a.png"><img src="/no/b.png"><img src="/icon.svg"><img src="/pixel.gif">'),
    }
    found, _ = await visit_answers(answers)

    assert (line(found, "images").items, line(found, "images").reason) == (1, "1 more must not be fetched")


# --- nothing at all


async def test_a_site_whose_name_is_not_known_gives_nothing_for_now() -> None:
    found = await visit("http://gone.invalid/", SETTINGS)

    assert found.facts.known == 0
    assert "pages: dns: the name gone.invalid is not known" in found.summary
    assert outcomes(found)["images"] == "skipped"
    assert found.may_pass, "a name may be known again later"


async def test_an_empty_page_is_no_fact() -> None:
    found, _ = await visit_answers({"/": page('<html lang="en"><body></body></html>')})

    assert outcomes(found)["pages"] == "ok"
    assert found.facts.known == 0


async def test_a_site_that_wants_no_crawler_is_left_alone_for_good() -> None:
    answers = {"/robots.txt": page("User-agent: *\nDisallow: /", "text/plain"), "/": home()}
    found, site = await visit_answers(answers)

    assert site.asked == ["shop.test/robots.txt"]
    assert found.facts.known == 0
    assert outcomes(found)["pages"] == "skipped"
    assert not found.may_pass


@pytest.mark.parametrize(("status", "may_pass"), [(403, False), (404, False), (500, True)])
async def test_whether_another_attempt_may_help(status: int, may_pass: bool) -> None:
    found, _ = await visit_answers({"/": page("", status=status)})

    assert found.facts.known == 0
    assert found.may_pass is may_pass
    assert found.rate_limit is None


async def test_a_site_that_takes_no_more_requests_says_when_to_come_back() -> None:
    found, _ = await visit_answers({"/": page("", status=429, Retry_After="45")})

    assert found.facts.known == 0
    assert found.rate_limit == 45.0


# --- places


def test_any_site_becomes_a_place() -> None:
    assert place_for("https://www.Shop.Example/en/") == Place(
        place_id="shop-example",
        name="shop.example",
        url="https://www.shop.example/en/",
        about="a site of your choice",
    )
    with pytest.raises(ValueError, match="must begin with http"):
        place_for("shop.example")


def test_the_bundled_places_are_enqueued_by_id_and_address() -> None:
    assert len({place.place_id for place in PLACES}) == len(PLACES) == 4
    for place in PLACES:
        assert place.payload == {"place_id": place.place_id, "url": f"http://{place.place_id}.test/"}
