"""The pipeline on a real database with the real runtime: the chain, its waits, doing with less, and its failures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from onboarding import llm
from onboarding import site as bundled
from onboarding.artefacts import public_folder
from onboarding.jobs import registry
from onboarding.places import PLACES, UNHANDLED_TYPE
from onboarding.provider import MOST_WAITS
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import enqueue
from support.websites import Answer, page, website
from wakeful import testing

CHAIN = ["COLLECT", "VISION", "COPY", "BUILD", "PUBLISH"]
ADDRESSES = {place.place_id: place.url for place in PLACES}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A running instance with the example's handlers, and what the tests ask of it."""

    db: ClonedDatabase
    sql: Connection
    output: Path
    worker: testing.Instance

    async def begin(self, place_id: str, url: str | None = None, **options: Any) -> None:
        payload = {"place_id": place_id, "url": url or ADDRESSES[place_id]}
        await enqueue(self.sql, "COLLECT", payload, **options)

    async def run_due(self) -> None:
        """Run all that may be claimed now, follow-ups included."""
        while await self.worker.run_one():
            pass

    async def make_due(self) -> None:
        """What waits for its time has waited long enough."""
        await self.sql.execute("update wakeful.scheduled set run_after = now()")
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(testing.run_promoter, self.db, stop)
            await eventually(self._nothing_is_scheduled)
            stop.set()

    async def jobs(self) -> dict[str, Mapping[str, Any]]:
        """The last job of each type."""
        rows = await self.sql.fetch("select * from wakeful.jobs order by created_at")
        return {row["job_type"]: dict(row) for row in rows}

    async def job(self, job_type: str) -> Mapping[str, Any]:
        return (await self.jobs())[job_type]

    async def result(self, job_type: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((await self.job(job_type))["result"])
        return result

    async def _nothing_is_scheduled(self) -> bool:
        return not await self.sql.fetchval("select count(*) from wakeful.scheduled")


@asynccontextmanager
async def pipeline(
    db: ClonedDatabase,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: Mapping[str, str],
) -> AsyncIterator[Pipeline]:
    settings = {"OUTPUT": str(output), "DELAY": "0", "REQUEST_TIMEOUT": "1", "LLM_TIMEOUT": "1"}
    for name, value in {
        **{f"ONBOARDING_{name}": value for name, value in settings.items()},
        **environment,
    }.items():
        monkeypatch.setenv(name, value)
    sql = await db.connect()
    async with testing.instance(db, registry=registry) as worker:
        yield Pipeline(db, sql, output, worker)


@pytest.fixture
async def sites() -> AsyncIterator[bundled.BundledSite]:
    async with bundled.serve() as site:
        yield site


async def test_a_place_goes_from_its_site_to_its_published_page(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        llm.serve(llm.always("fine")) as provider,
        pipeline(db, tmp_path, monkeypatch, {**sites.environment(), **provider.environment()}) as onboarding,
    ):
        await onboarding.begin("corner-bakery", queue="demo", priority="interactive", tags=["demo"])
        await onboarding.run_due()

        jobs = await onboarding.jobs()
        assert {job_type: jobs[job_type]["status"] for job_type in jobs} == dict.fromkeys(CHAIN, "DONE")
        for job in jobs.values():
            about = (job["subject"], job["queue"], job["priority"], job["tags"], job["degraded"])
            assert about == ("corner-bakery", "demo", "interactive", ["demo"], [])
            steps = json.loads(job["progress"])["steps"]
            assert {step["status"] for step in steps} == {"done"}
        channels = (await onboarding.result("COLLECT"))["channels"]
        assert [channel["status"] for channel in channels] == ["ok"] * 10
        pictures = (await onboarding.result("VISION"))["pictures"]
        assert all(picture["description"] for picture in pictures)
        assert (await onboarding.result("COPY"))["source"] == "provider"
        current = Path((await onboarding.result("PUBLISH"))["current"])
        assert "The Corner Bakery: good things, close by" in (current / "index.html").read_text()


async def test_every_bundled_place_gets_its_page_whatever_its_troubles(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pipeline(db, tmp_path, monkeypatch, sites.environment()) as onboarding:
        for place in PLACES:
            await onboarding.begin(place.place_id)
        await onboarding.run_due()

        statuses = await onboarding.sql.fetch("select job_type, status, degraded from wakeful.jobs")
        assert len(statuses) == len(PLACES) * len(CHAIN)
        assert {row["status"] for row in statuses} == {"DONE"}
        assert not any(row["degraded"] for row in statuses), "no provider is configured, so none is missed"
        for place in PLACES:
            shown = (public_folder(tmp_path, place.place_id) / "current" / "index.html").read_text()
            assert "<h1>" in shown


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("broken", "the provider answers 500: The server had an error while processing your request"),
        ("refusing", "the provider refuses to answer"),
        ("rambling", "the provider's answer holds no JSON object"),
        ("silent", "the provider gave no answer in 1 s"),
    ],
)
async def test_without_the_providers_help_the_facts_alone_are_used_and_that_is_said(
    mood: llm.Mood,
    reason: str,
    db: ClonedDatabase,
    sites: bundled.BundledSite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        llm.serve(llm.always(mood)) as provider,
        pipeline(db, tmp_path, monkeypatch, {**sites.environment(), **provider.environment()}) as onboarding,
    ):
        await onboarding.begin("spoke-and-chain")
        await onboarding.run_due()

        copy = await onboarding.job("COPY")
        assert (copy["status"], copy["degraded"]) == (
            "DONE",
            [f"the text is made from the facts alone: {reason}"],
        )
        assert (await onboarding.result("COPY")) == {"source": "facts", "headline": "Spoke & Chain"}
        assert (await onboarding.job("PUBLISH"))["status"] == "DONE"


async def test_a_429_is_waited_for_without_spending_the_attempt(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**sites.environment(), "ONBOARDING_LLM_PICTURES": "0"}
    async with (
        llm.serve(llm.in_turn("limited", "fine")) as provider,
        pipeline(db, tmp_path, monkeypatch, {**environment, **provider.environment()}) as onboarding,
    ):
        await onboarding.begin("corner-bakery")
        await onboarding.run_due()
        waiting = await onboarding.job("COPY")
        assert (waiting["status"], waiting["attempts"], waiting["snoozed"]) == ("PENDING", 0, 1)

        await onboarding.make_due()
        await onboarding.run_due()

        copy = await onboarding.job("COPY")
        assert (copy["status"], copy["attempts"], copy["degraded"]) == ("DONE", 1, [])
        assert (await onboarding.result("COPY"))["source"] == "provider"


async def test_a_429_that_does_not_end_is_not_waited_for_for_ever(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**sites.environment(), "ONBOARDING_LLM_PICTURES": "0"}
    async with (
        llm.serve(llm.always("limited")) as provider,
        pipeline(db, tmp_path, monkeypatch, {**environment, **provider.environment()}) as onboarding,
    ):
        await onboarding.begin("corner-bakery")
        await onboarding.run_due()
        for _ in range(MOST_WAITS):
            assert (await onboarding.job("COPY"))["status"] == "PENDING"
            await onboarding.make_due()
            await onboarding.run_due()

        copy = await onboarding.job("COPY")
        assert copy["status"] == "DONE"
        assert copy["degraded"] == [
            "the text is made from the facts alone: the provider answers 429, Retry-After 1 s, after 4 waits"
        ]


async def test_a_pause_that_is_too_long_is_not_waited_for(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**sites.environment(), "ONBOARDING_LLM_PATIENCE": "0.5"}
    async with (
        llm.serve(llm.always("limited")) as provider,
        pipeline(db, tmp_path, monkeypatch, {**environment, **provider.environment()}) as onboarding,
    ):
        await onboarding.begin("corner-bakery")
        await onboarding.run_due()

        jobs = await onboarding.jobs()
        assert {jobs[job_type]["status"] for job_type in CHAIN} == {"DONE"}
        assert len(jobs["VISION"]["degraded"]) == len(jobs["COPY"]["degraded"]) == 1


async def test_a_description_that_was_paid_for_is_not_asked_for_again(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def third_is_limited_once(question: str, times: int) -> llm.Mood:
        asked.append(question)
        return "limited" if len(asked) == 3 else "fine"

    async with (
        llm.serve(third_is_limited_once) as provider,
        pipeline(db, tmp_path, monkeypatch, {**sites.environment(), **provider.environment()}) as onboarding,
    ):
        await onboarding.begin("corner-bakery")
        await onboarding.run_due()
        assert (await onboarding.job("VISION"))["status"] == "PENDING"
        await onboarding.make_due()
        await onboarding.run_due()

        assert asked[3] == asked[2], "only the picture that was not described is asked for again"
        assert len(asked) == 5, "three pictures, one of them twice, and the text"
        assert all(picture["description"] for picture in (await onboarding.result("VISION"))["pictures"])


async def test_the_key_is_nowhere_to_be_found(
    db: ClonedDatabase,
    sites: bundled.BundledSite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    key = "sk-must-not-be-seen-0123456789"
    async with llm.serve(llm.always("fine")) as provider:
        environment = {**sites.environment(), **provider.environment(), "ONBOARDING_LLM_KEY": key}
        async with pipeline(db, tmp_path, monkeypatch, environment) as onboarding:
            await onboarding.begin("corner-bakery")
            await onboarding.run_due()

            copy = await onboarding.job("COPY")
            assert copy["degraded"][0].endswith("the provider answers 401: Incorrect API key provided: ***")
            tables = await onboarding.sql.fetch(
                "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'wakeful'"
            )
            for table in tables:
                name = table["name"]
                rows = await onboarding.sql.fetchval(f"select string_agg(t::text, ' ') from {name} t")
                assert key not in (rows or ""), name
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if key.encode() in path.read_bytes()]
    assert key not in "".join(capfd.readouterr())


async def test_what_can_not_be_published_is_told_to_people(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pipeline(db, tmp_path, monkeypatch, sites.environment()) as onboarding:
        public = public_folder(tmp_path, "corner-bakery")
        public.mkdir(parents=True)
        (public / "releases").write_text("a file where a folder has to be")
        await onboarding.begin("corner-bakery")
        await onboarding.run_due()

        job = await onboarding.job("PUBLISH")
        assert (job["status"], job["attempts"]) == ("PENDING", 1)
        assert "the site could not be published" in job["last_error"]
        (alert,) = await onboarding.sql.fetch("select * from wakeful.alert_outbox")
        about = (alert["kind"], alert["dedupe_key"], alert["subject"], alert["severity"])
        assert about == ("publish_failed", "publish_failed:corner-bakery", "corner-bakery", "error")

        (public / "releases").unlink()
        await onboarding.make_due()
        await onboarding.run_due()
        assert (await onboarding.job("PUBLISH"))["status"] == "DONE"


async def test_a_run_that_a_newer_one_has_overtaken_is_no_longer_wanted(
    db: ClonedDatabase, sites: bundled.BundledSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pipeline(db, tmp_path, monkeypatch, sites.environment()) as onboarding:
        await onboarding.begin("corner-bakery")
        await onboarding.run_due()
        late = {"place_id": "corner-bakery", "run": "00000000-0000-7000-8000-000000000000"}
        await enqueue(onboarding.sql, "BUILD", late)
        await onboarding.run_due()

        job = await onboarding.job("BUILD")
        assert job["status"] == "CANCELLED"


async def test_a_site_that_forbids_all_is_dead_at_once_and_says_why(
    db: ClonedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await collected(
        db, tmp_path, monkeypatch, {"/robots.txt": page("User-agent: *\nDisallow: /", "text/plain")}
    )

    assert (job["status"], job["attempts"]) == ("DEAD", 1)
    assert "no channel gave a fact: sitemap: robots: robots.txt forbids /sitemap.xml" in job["last_error"]


async def test_a_site_that_is_down_is_tried_again(
    db: ClonedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await collected(db, tmp_path, monkeypatch, {"/": page("", status=502)})

    assert (job["status"], job["attempts"]) == ("PENDING", 1)
    assert "no channel gave a fact" in job["last_error"]


async def test_a_site_that_takes_no_more_requests_is_waited_for(
    db: ClonedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await collected(db, tmp_path, monkeypatch, {"/": page("", status=429, Retry_After="600")})

    assert (job["status"], job["attempts"], job["snoozed"]) == ("PENDING", 0, 1)
    assert (job["run_after"] - job["created_at"]).total_seconds() >= 600


@pytest.mark.parametrize("url", ["ftp://shop.test/", "shop.test", "http://u:p@shop.test/"])
async def test_what_is_no_address_is_dead_at_once(
    url: str, db: ClonedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await collected(db, tmp_path, monkeypatch, {}, url=url)

    assert job["status"] == "DEAD"
    assert "url: the address must" in job["last_error"]


async def test_a_place_id_of_any_kind_stays_in_the_output_folder(
    db: ClonedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "deep" / "output"
    job = await collected(db, output, monkeypatch, {"/": page("<h1>Shop</h1>")}, place_id="../../../evil")

    assert job["status"] == "DONE"
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert len(list(output.iterdir())) == 1


async def collected(
    db: ClonedDatabase,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[str, Answer],
    *,
    url: str = "http://shop.test/",
    place_id: str = "shop",
) -> Mapping[str, Any]:
    """The COLLECT job of a site with these answers, after one claim."""
    async with website(answers) as site:
        environment = {"ONBOARDING_CONNECT_TO": f"*.test=127.0.0.1:{site.port}"}
        async with pipeline(db, output, monkeypatch, environment) as onboarding:
            await onboarding.begin(place_id, url)
            assert await onboarding.worker.run_one()
            return await onboarding.job("COLLECT")


async def test_the_type_without_a_handler_fails_loudly(
    db: ClonedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pipeline(db, tmp_path, monkeypatch, {}) as onboarding:
        await enqueue(onboarding.sql, UNHANDLED_TYPE, {"place_id": "corner-bakery"}, max_attempts=1)
        await onboarding.run_due()

        job = await onboarding.job(UNHANDLED_TYPE)
        assert (job["status"], job["subject"]) == ("DEAD", "corner-bakery")
        assert "UnknownJobType" in job["last_error"]
