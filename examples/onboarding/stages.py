"""The stages' work between the jobs and the parts: fetch, look, ask, and keep what came of it.

Invariant: nothing here knows of jobs, and what blocks (the disk, the decoder of pictures) runs in a thread, so that the
loop and its other jobs never wait for it. Each function may be repeated: what an attempt has left is used again.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import aiohttp
import anyio
from anyio import to_thread
from yarl import URL

from onboarding.artefacts import Run, folder_name, read_json, write_json
from onboarding.build import Content
from onboarding.copywriting import (
    PICTURE_TASK,
    Text,
    question,
    read_answer,
    text_document,
    text_from_document,
)
from onboarding.crawl.fetch import Fetcher
from onboarding.crawl.survey import Survey, survey
from onboarding.crawl.visit import Report, Visit
from onboarding.facts import Facts, Picture, clean, from_document, to_document
from onboarding.pictures import (
    Seen,
    best_first,
    download,
    measure,
    read_descriptions,
    read_vision,
    with_descriptions,
    write_descriptions,
    write_vision,
)
from onboarding.provider import Provider, picture_message
from onboarding.settings import CrawlSettings
from onboarding.vision import upright_copy

SENT_SIZE: Final = (768, 768)
LONGEST_DESCRIPTION: Final = 300


async def visit(
    site: URL, session: aiohttp.ClientSession, *, settings: CrawlSettings, report: Report
) -> Survey:
    """Look through all channels of a site."""
    fetcher = Fetcher(session, settings)
    return await survey(Visit(site=site, fetcher=fetcher, settings=settings, report=report))


async def save_facts(run: Run, facts: Facts) -> None:
    await to_thread.run_sync(write_json, run.facts, to_document(facts))


async def load_facts(run: Run) -> Facts:
    """The facts that COLLECT left. Raises MissingArtefact."""
    return from_document(await to_thread.run_sync(read_json, run.facts))


async def fetch_pictures(
    run: Run,
    pictures: Sequence[Picture],
    *,
    session: aiohttp.ClientSession,
    settings: CrawlSettings,
    report: Report,
) -> list[Seen]:
    """Bring the pictures into the run's folder, one after the other, as politely as the pages."""
    fetcher = Fetcher(session, settings)
    seen: list[Seen] = []
    for picture in pictures[: settings.max_images]:
        await report(100.0 * len(seen) / len(pictures), f"picture {len(seen) + 1} of {len(pictures)}")
        seen.append(await download(fetcher, picture, run=run, max_bytes=settings.max_image_bytes))
    return seen


async def measure_pictures(
    run: Run, pictures: list[Seen], *, cpu: anyio.CapacityLimiter, report: Report
) -> list[Seen]:
    """Look at each picture in a thread of its own; `cpu` bounds how many of all jobs are decoded at once."""
    measured: list[Seen] = []
    for seen in pictures:
        await report(100.0 * len(measured) / len(pictures), f"picture {len(measured) + 1} of {len(pictures)}")
        measured.append(await to_thread.run_sync(measure, seen, run, limiter=cpu))
    return measured


async def describe_pictures(run: Run, pictures: list[Seen], *, provider: Provider, name: str) -> None:
    """Have the best pictures described, and keep each description at once. Raises what `Provider.ask` raises."""
    known = await to_thread.run_sync(read_descriptions, run)
    for seen in best_first(pictures)[: provider.settings.pictures]:
        if seen.url not in known:
            content = await to_thread.run_sync(_small_jpeg, run, seen)
            task = PICTURE_TASK.format(name=name or "a shop")
            answer = await provider.ask([picture_message(task, content=content, content_type="image/jpeg")])
            known[seen.url] = clean(answer, LONGEST_DESCRIPTION)
            await to_thread.run_sync(write_descriptions, run, known)


async def save_vision(run: Run, pictures: list[Seen]) -> list[Seen]:
    """Keep what was seen, with the descriptions that there are."""
    described = with_descriptions(pictures, await to_thread.run_sync(read_descriptions, run))
    await to_thread.run_sync(write_vision, run, described)
    return described


async def ask_for_text(run: Run, facts: Facts, *, provider: Provider) -> Text:
    """Have the text written from the facts. Raises what `Provider.ask` raises, ProviderFailed for nonsense, too."""
    pictures = await to_thread.run_sync(read_vision, run)
    captions = [seen.caption for seen in best_first(pictures) if seen.caption]
    return read_answer(await provider.ask(question(facts, captions)))


async def load_paid_text(run: Run) -> Text | None:
    """The provider's text that an earlier attempt was given: it need not be paid for again."""
    if not run.text.exists():
        return None
    text = text_from_document(await to_thread.run_sync(read_json, run.text))
    return text if text.source == "provider" else None


async def save_text(run: Run, text: Text) -> None:
    await to_thread.run_sync(write_json, run.text, text_document(text))


def load_content(run: Run, public_url: str, *, place_id: str) -> Content:
    """All that BUILD needs. Raises MissingArtefact."""
    return Content(
        facts=from_document(read_json(run.facts)),
        text=text_from_document(read_json(run.text)),
        pictures=read_vision(run),
        public_url=f"{public_url.rstrip('/')}/{folder_name(place_id)}/",
    )


def picture_line(seen: Seen) -> dict[str, object]:
    """A picture as it stands in VISION's result."""
    facts = seen.facts
    return {
        "url": seen.url,
        "format": facts.format,
        "size": [facts.width, facts.height],
        "animated": facts.animated,
        "colours": [colour.hex for colour in facts.colours[:3]],
        "sharpness": facts.sharpness,
        "brightness": facts.brightness,
        "description": seen.description,
        "problem": facts.problem or None,
    }


def _small_jpeg(run: Run, seen: Seen) -> bytes:
    """The picture as it is sent: small, upright, and without whatever else its file holds."""
    image = upright_copy(run.pictures / seen.file, SENT_SIZE)
    assert image is not None, "only pictures that were decoded are described"
    output = io.BytesIO()
    image.save(output, "JPEG", quality=80)
    return output.getvalue()
