"""The pictures of a run: fetched once, a problem where they can't be, and JSON there and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onboarding.artefacts import Run, run_folder
from onboarding.crawl.fetch import Fetcher, open_session
from onboarding.facts import Picture
from onboarding.pictures import Seen, best_first, download, measure, read_vision, write_vision
from onboarding.settings import CrawlSettings
from onboarding.site import drawings
from onboarding.vision import Colour, PictureFacts
from support.websites import Answer, Website, data, page, website

SETTINGS = CrawlSettings(delay=0.0)


async def fetched(run: Run, site: Website, *paths: str, max_bytes: int = 1_000_000) -> list[Seen]:
    settings = replace(SETTINGS, connect_to=site.connect_to)
    async with open_session(settings) as session:
        fetcher = Fetcher(session, settings)
        pictures = [Picture(f"http://shop.test{path}", "words") for path in paths]
        return [await download(fetcher, picture, run=run, max_bytes=max_bytes) for picture in pictures]


async def test_a_picture_is_fetched_and_measured(tmp_path: Path) -> None:
    run = run_folder(tmp_path, "shop", "r1")
    async with website({"/a.jpg": data(drawings.shelves(), "image/jpeg")}) as site:
        (seen,) = await fetched(run, site, "/a.jpg")

    measured = measure(seen, run)

    assert (measured.usable, measured.facts.format, measured.facts.width) == (True, "JPEG", 960)
    assert measured.caption == "words"


async def test_an_earlier_attempts_picture_is_not_fetched_again(tmp_path: Path) -> None:
    run = run_folder(tmp_path, "shop", "r1")
    async with website({"/a.jpg": data(drawings.crumb(), "image/jpeg")}) as site:
        first = await fetched(run, site, "/a.jpg")
        again = await fetched(run, site, "/a.jpg")

        assert first == again
        assert site.asked.count("shop.test/a.jpg") == 1


async def test_what_can_not_be_fetched_is_an_entry_with_a_problem(tmp_path: Path) -> None:
    run = run_folder(tmp_path, "shop", "r1")
    answers: dict[str, Answer] = {
        "/robots.txt": page("User-agent: *\nDisallow: /private", "text/plain"),
        "/large.png": data(b"x" * 2000, "image/png"),
        "/page": page("<html>"),
    }
    async with website(answers) as site:
        seen = await fetched(run, site, "/gone.png", "/large.png", "/page", "/private/a.png", max_bytes=1000)

    problems = [measure(picture, run).facts.problem.partition(":")[0] for picture in seen]
    assert problems == ["http", "too_large", "content_type", "robots"]


def facts(width: int, sharpness: float, problem: str = "") -> PictureFacts:
    colours = (Colour("#102030", 0.5),)
    return PictureFacts(bytes=1, width=width, sharpness=sharpness, colours=colours, problem=problem)


def test_large_and_sharp_pictures_come_first_and_broken_ones_not_at_all() -> None:
    pictures = [
        Seen(url=name, alt="", file=name, facts=look)
        for name, look in {
            "small": facts(200, 900.0),
            "blurred": facts(1600, 10.0),
            "broken": facts(1600, 500.0, "torn"),
            "best": facts(1300, 500.0),
        }.items()
    ]

    assert [seen.url for seen in best_first(pictures)] == ["best", "blurred", "small"]


def test_what_was_seen_goes_to_disk_and_back(tmp_path: Path) -> None:
    run = run_folder(tmp_path, "shop", "r1")
    pictures = [
        Seen(url="u", alt="a", file="f", facts=facts(10, 1.5), description="d"),
        Seen(url="v", alt="", file="g", facts=PictureFacts(bytes=0, problem="http: 404")),
    ]

    write_vision(run, pictures)

    assert read_vision(run) == pictures
