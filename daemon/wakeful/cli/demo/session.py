"""One run of the demo, from its first line to its last: read it in the nesting of `_demo`.

What is opened first is closed last: data folder and server, log, sites and model, database, and in them the daemon with
its producer and its teller. Invariant: a stop at any moment, also during the set-up, ends all of it in this order and
leaves nothing but the data; signals are watched from the first moment to the last.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TextIO, cast

import anyio

from wakeful.aio.shutdown import Shutdown, hold_signals
from wakeful.cli import exits
from wakeful.cli.demo import words
from wakeful.cli.demo.entries import Entry
from wakeful.cli.demo.example import HANDLERS
from wakeful.cli.demo.location import Location, opened_location
from wakeful.cli.demo.logfile import LogFile
from wakeful.cli.demo.neighbours import is_guest
from wakeful.cli.demo.news import News
from wakeful.cli.demo.plan import QUEUE, Plan
from wakeful.cli.demo.producing import Producer
from wakeful.cli.demo.screen import Screen, screen_for
from wakeful.cli.demo.story import STAGES, UNHANDLED
from wakeful.cli.demo.surroundings import check, places_of, surrounded
from wakeful.cli.demo.telling import Goal, Teller
from wakeful.cli.demo.watching import Watch
from wakeful.cli.demo.words import Scene
from wakeful.composition import Observed
from wakeful.core.settings import Settings
from wakeful.handlers.loading import load_registry
from wakeful.process import observe, run_loop, with_signals
from wakeful.starting import Options
from wakeful.store.database import Database, open_database
from wakeful.store.migrate import migrate, pending
from wakeful.supervisor import live

APPLICATION: Final = "wakeful demo"
_ONCE_SECONDS: Final = 1.0  # between two places, where each has its turn only once


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What lasts for the whole run."""

    plan: Plan
    environ: Mapping[str, str]
    observed: Observed
    screen: Screen
    news: News
    log: LogFile

    def tell(self, entry: Entry) -> None:
        """Tell this now."""
        self.screen.write([entry])


def run_demo(plan: Plan, environ: Mapping[str, str], *, as_json: bool) -> int:
    """Run the demo until it is stopped or, with `once`, done; gives the exit code. Raises WakefulError."""
    hold_signals()
    check(environ)
    places_of(plan.sites)
    log = LogFile()
    session = Session(
        plan=plan,
        environ=environ,
        observed=observe(plan.settings, stream=cast(TextIO, log)),  # as much of one as logging needs
        screen=screen_for(sys.stdout, environ, as_json=as_json, clock=_now),
        news=News(),
        log=log,
    )
    session.observed.telemetry.subscribe(session.news.on_event)
    session.tell(words.beginning(plan))
    telemetry = session.observed.telemetry
    with log:
        return run_loop(lambda: with_signals(lambda shutdown: _demo(session, shutdown), telemetry), telemetry)


async def _demo(session: Session, shutdown: Shutdown) -> int:
    plan, telemetry = session.plan, session.observed.telemetry
    async with opened_location(plan) as location:
        path = session.log.open(location.folder)
        async with surrounded(location.folder, plan.sites, session.environ) as around:
            os.environ.update(around.environment)  # where the handlers' lifespan reads it
            settings = plan.settings_at(location.dsn)
            async with open_database(
                settings.database, telemetry, connections=2, application=APPLICATION
            ) as database:
                await _install(session, settings, location)
                scene = Scene(
                    plan=plan,
                    location=location,
                    around=around,
                    log=path,
                    guest=await _is_guest(plan, database),
                    http=None,
                )
                code, ending = await _perform(session, scene, shutdown, settings=settings, database=database)
    session.tell(ending)
    return code


async def _install(session: Session, settings: Settings, location: Location) -> None:
    """Install the schema where it is missing, after saying so. Raises SchemaMismatch where that is not allowed."""
    if not await pending(settings.database):
        return
    session.tell(words.installing(session.plan, location.shown))
    done = await migrate(settings.database, session.observed.telemetry)
    session.tell(words.installed(sum(step.seconds for step in done.applied)))


async def _is_guest(plan: Plan, database: Database) -> bool:
    return plan.dsn is not None and await is_guest(database, queue=QUEUE, job_types=(*STAGES, UNHANDLED))


async def _perform(
    session: Session, scene: Scene, shutdown: Shutdown, *, settings: Settings, database: Database
) -> tuple[int, Entry]:
    """Run the daemon with a producer and a teller beside it; gives the exit code and the last words."""
    plan, over = session.plan, anyio.Event()
    watch = Watch(queues=plan.served)
    left = await watch.begin(database)
    producer = _producer(scene, database, watch)
    teller = Teller(
        screen=session.screen,
        watch=watch,
        database=database,
        news=session.news,
        shutdown=shutdown,
        clock=_now,
        told=left,
        goal=Goal(all_begun=lambda: producer.done, alert=producer.shows_unhandled) if plan.once else None,
    )
    async with anyio.create_task_group() as beside:

        def begin(url: str | None) -> None:
            teller.write(
                [*session.news.take(), words.introduction(replace(scene, http=url)), *words.taken_up(left)]
            )
            beside.start_soon(teller.run, over)
            beside.start_soon(producer.run, shutdown.requested)

        options = Options(port_fallback=True, on_serving=begin, guest=scene.guest)
        code = await live(settings, load_registry((HANDLERS,)), session.observed, shutdown, options)
        over.set()
    return _outcome(scene, teller, code)


def _producer(scene: Scene, database: Database, watch: Watch) -> Producer:
    plan = scene.plan
    return Producer(
        database=database,
        places=places_of(plan.sites),
        queue=plan.queue,
        interval=min(plan.interval, _ONCE_SECONDS) if plan.once else plan.interval,
        endless=not plan.once and not plan.sites,
        shows_unhandled=not scene.guest,
        open_pipelines=lambda: len(watch.latest.open_pipelines),
    )


def _outcome(scene: Scene, teller: Teller, code: int) -> tuple[int, Entry]:
    tally, waiting = teller.tally, len(teller.watch.latest.open_pipelines)
    reason = None
    if code != exits.OK:
        code, reason = exits.FAILED, f"the daemon did not end as it should: {scene.log} says why"
    elif scene.plan.once and tally.died:
        code, reason = exits.FAILED, f"died, and should not have: {', '.join(tally.died)}"
    elif scene.plan.once and not teller.reached:
        code, reason = exits.INTERRUPTED, "stopped before the first pipelines had ended"
    return code, words.ending(scene.plan, tally, waiting=waiting, reason=reason)


def _now() -> datetime:
    return datetime.now(UTC)
