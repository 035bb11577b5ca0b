"""The pipeline: COLLECT -> VISION -> COPY -> BUILD -> PUBLISH, each the follow-up job of the one before.

A follow-up is committed together with its parent's end, so the chain neither breaks nor doubles when a process dies
in between. Payloads carry (place, run); the data lie in the output folder (`artefacts`), where a second attempt
finds what the first one made. COLLECT and COPY wait for others and run on the loop; BUILD and PUBLISH work on files
and are plain functions, run in threads; VISION decodes pictures of strangers, in a process of its own, which a bad one
may take all memory of or crash. AI_CHECK has no handler here, to show that such a job fails loudly.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import anyio

from onboarding import stages
from onboarding.artefacts import Run, prune_runs, public_folder, run_folder
from onboarding.build import build_site
from onboarding.copywriting import Text, text_from_facts
from onboarding.crawl.fetch import open_session
from onboarding.crawl.survey import Survey
from onboarding.crawl.urls import parse_site
from onboarding.facts import Facts
from onboarding.pictures import Seen
from onboarding.provider import Provider, ProviderFailed, ProviderLimited, open_provider
from onboarding.publish import PublishBusy, publish, shown_release
from onboarding.settings import Settings, from_environment
from wakeful import Discard, Fail, JobContext, JobType, RateLimited, Registry, Snooze

BUSY_SECONDS: Final = 2.0
PROVIDER_KEY: Final = "onboarding-llm"
"""VISION and COPY spend the same key, so one name stands for its limit."""

registry = Registry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What all jobs of this process share."""

    settings: Settings
    session: aiohttp.ClientSession
    provider: Provider | None
    cpu: anyio.CapacityLimiter


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """The payload of COLLECT: which place, and where its site is."""

    place_id: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The payload of every later stage: `run` is the id of the COLLECT job that began it."""

    place_id: str
    run: str


@registry.lifespan
async def resources() -> AsyncIterator[Resources]:
    settings = from_environment(os.environ)
    async with open_session(settings.crawl) as session, open_provider(settings.provider) as provider:
        yield Resources(settings=settings, session=session, provider=provider, cpu=anyio.CapacityLimiter(2))


@registry.job("COLLECT", subject="place_id", deadline="10m", owner="onboarding", steps=("visit", "save"))
async def collect(job: JobContext, payload: Collect) -> dict[str, object]:
    """Visit the place's site through all channels. A channel that fails is data; a site without a fact is a failure."""
    shared = _resources(job)
    stage = Stage(place_id=payload.place_id, run=str(job.job_id))
    try:
        site = parse_site(payload.url)
    except ValueError as error:
        raise Fail(f"url: {error}") from error
    async with job.step("visit") as step:
        survey = await stages.visit(
            site, shared.session, settings=shared.settings.crawl, report=step.progress
        )
        _check_facts(survey)
    async with job.step("save"):
        await stages.save_facts(_run(shared, stage), survey.facts)
    _enqueue_next(job, vision, stage)
    return {
        "run": stage.run,
        "name": survey.facts.name,
        "facts": survey.facts.known,
        "channels": survey.documents(),
    }


@registry.job(
    "VISION",
    subject="place_id",
    deadline="10m",
    owner="onboarding",
    limit_key=PROVIDER_KEY,
    steps=("fetch", "measure", "describe"),
    isolation="process",
)
async def vision(job: JobContext, payload: Stage) -> dict[str, object]:
    """Fetch the pictures, look at them, and have the best of them described where a provider is configured."""
    shared = _resources(job)
    run = _run(shared, payload)
    facts = await stages.load_facts(run)
    async with job.step("fetch") as step:
        pictures = await stages.fetch_pictures(
            run, facts.pictures, session=shared.session, settings=shared.settings.crawl, report=step.progress
        )
    async with job.step("measure") as step:
        pictures = await stages.measure_pictures(run, pictures, cpu=shared.cpu, report=step.progress)
    async with job.step("describe") as step:
        if shared.provider is not None:
            await _describe(job, shared.provider, run=run, facts=facts, pictures=pictures)
        pictures = await stages.save_vision(run, pictures)
    _enqueue_next(job, copy, payload)
    return {"pictures": [stages.picture_line(seen) for seen in pictures]}


@registry.job(
    "COPY",
    subject="place_id",
    deadline="5m",
    owner="onboarding",
    limit_key=PROVIDER_KEY,
    steps=("write", "save"),
)
async def copy(job: JobContext, payload: Stage) -> dict[str, object]:
    """Have the text written; without a provider, or when it fails, the facts speak for themselves."""
    shared = _resources(job)
    run = _run(shared, payload)
    facts = await stages.load_facts(run)
    async with job.step("write"):
        text = await stages.load_paid_text(run) or await _write_text(
            job, shared.provider, run=run, facts=facts
        )
    async with job.step("save"):
        await stages.save_text(run, text)
    _enqueue_next(job, build, payload)
    return {"source": text.source, "headline": text.headline}


@registry.job("BUILD", subject="place_id", deadline="5m", owner="onboarding", steps=("render",))
def build(job: JobContext, payload: Stage) -> dict[str, object]:
    """Render the static site from facts, pictures and text."""
    shared = _resources(job)
    run = _run(shared, payload)
    with job.step("render") as step:
        content = stages.load_content(run, shared.settings.public_url, place_id=payload.place_id)
        # In a thread, `progress` is also where a job that should stop does: deadline, cancel, drain.
        files = build_site(run, content, step.progress)
    _enqueue_next(job, publish_site, payload)
    return {"files": files}


@registry.job("PUBLISH", subject="place_id", deadline="5m", owner="onboarding", steps=("switch", "tidy"))
def publish_site(job: JobContext, payload: Stage) -> dict[str, object]:
    """Put the site into place, whole or not at all; somebody hears of it when that can't be done."""
    shared = _resources(job)
    run = _run(shared, payload)
    public = public_folder(shared.settings.output, payload.place_id)
    keep = shared.settings.keep_releases
    with job.step("switch"):
        try:
            published = publish(run.site, public, run=payload.run, keep=keep)
        except PublishBusy as busy:
            raise Snooze(BUSY_SECONDS, str(busy)) from busy
        except OSError as error:
            raise _publish_failed(job, payload, error) from error
    with job.step("tidy"):
        prune_runs(shared.settings.output, payload.place_id, keep=keep, run=payload.run)
    return {
        "current": str(published.current),
        "superseded_by": published.superseded_by,
        "removed": published.removed,
    }


def _resources(job: JobContext) -> Resources:
    shared = job.resources
    assert isinstance(shared, Resources)
    return shared


def _run(shared: Resources, stage: Stage) -> Run:
    """The folder of a stage's run; a run that newer ones have overtaken and tidied away is no longer wanted."""
    run = run_folder(shared.settings.output, stage.place_id, stage.run)
    shown = shown_release(public_folder(shared.settings.output, stage.place_id))
    if shown is not None and shown > run.folder.name and not run.facts.exists():
        raise Discard(f"the newer run {shown} is published already")
    return run


def _enqueue_next(job: JobContext, job_type: JobType[[JobContext, Stage], Any], stage: Stage) -> None:
    """The next stage, in the queue and with the urgency of this one."""
    key = f"{job_type.job_type.lower()}:{stage.run}"
    job.enqueue(
        job_type, stage, queue=job.queue, priority=job.priority, dedupe_key=key, tags=job.tags, meta=job.meta
    )


def _check_facts(survey: Survey) -> None:
    if survey.facts.known:
        return
    pause = survey.rate_limit
    if pause is not None:
        raise RateLimited(pause, f"the site takes no more requests for now: {survey.summary}")
    raise Fail(f"no channel gave a fact: {survey.summary}", retry=survey.may_pass)


async def _describe(
    job: JobContext, provider: Provider, *, run: Run, facts: Facts, pictures: list[Seen]
) -> None:
    try:
        await stages.describe_pictures(run, pictures, provider=provider, name=facts.name)
    except ProviderLimited as limit:
        _wait_or_go_on(job, provider, limit=limit, loss="not all pictures are described")
    except ProviderFailed as failure:
        job.degrade(f"not all pictures are described: {failure}")


async def _write_text(job: JobContext, provider: Provider | None, *, run: Run, facts: Facts) -> Text:
    if provider is None:
        return text_from_facts(facts)
    try:
        return await stages.ask_for_text(run, facts, provider=provider)
    except ProviderLimited as limit:
        _wait_or_go_on(job, provider, limit=limit, loss="the text is made from the facts alone")
    except ProviderFailed as failure:
        job.degrade(f"the text is made from the facts alone: {failure}")
    return text_from_facts(facts)


def _wait_or_go_on(job: JobContext, provider: Provider, *, limit: ProviderLimited, loss: str) -> None:
    """Wait without spending the attempt, unless that has been going on for too long or would."""
    waits = job.run_no - job.attempt
    if limit.worth_waiting(waits=waits, patience=provider.settings.patience):
        raise RateLimited(limit.retry_after, str(limit))
    job.degrade(f"{loss}: {limit}, after {waits} waits")


def _publish_failed(job: JobContext, stage: Stage, error: OSError) -> Fail:
    job.alert(
        "publish_failed",
        title=f"The site of {stage.place_id} could not be published",
        severity="error",
        dedupe_key=f"publish_failed:{stage.place_id}",
        subject=stage.place_id,
        body={"run": stage.run, "error": str(error)},
    )
    return Fail(f"the site could not be published: {error}", retry=True)
