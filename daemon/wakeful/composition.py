"""Puts the parts of one instance together: who needs whom, and nothing else.

Invariant: nothing here waits, runs or decides; the life of what is made here is `supervisor`'s.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final

import anyio

from wakeful.aio.alarm import Alarm
from wakeful.aio.wakeup import Wakeup
from wakeful.core.declaration import lease_of
from wakeful.core.links import linked
from wakeful.core.outcome import HandedBack
from wakeful.core.pace import Pace
from wakeful.core.settings import Settings
from wakeful.errors import UnknownJobType
from wakeful.handlers.isolation.pool import ProcessPool
from wakeful.handlers.registry import Registry
from wakeful.handlers.resources import Resources
from wakeful.handlers.threads import ThreadPool
from wakeful.handlers.trailing import TrailingWrites
from wakeful.outbox.policy import Policy
from wakeful.outbox.rules import RULES
from wakeful.outbox.rules.evaluating import Evaluating, with_rules
from wakeful.outbox.sinks import build_sinks
from wakeful.outbox.sinks.protocol import Sink
from wakeful.runtime.attempts import Attempts
from wakeful.runtime.bells import Bells
from wakeful.runtime.claimer import Claiming
from wakeful.runtime.conclusion import Conclusion
from wakeful.runtime.crew import Crew
from wakeful.runtime.duties import Duty, fold_duty, job_types_duty
from wakeful.runtime.finding import Finding
from wakeful.runtime.finisher import Finisher
from wakeful.runtime.flush import Flushing
from wakeful.runtime.gate import Gate
from wakeful.runtime.holdings import Holdings
from wakeful.runtime.lease import Lease
from wakeful.runtime.membership import Membership
from wakeful.runtime.preparing import Executing
from wakeful.runtime.pruner import prune_duty, ring_duty
from wakeful.runtime.publishing import published
from wakeful.runtime.reaper import backstop_duty
from wakeful.runtime.reporter import Reporter
from wakeful.runtime.sharing import Scope
from wakeful.runtime.tracing import traced
from wakeful.runtime.unserved import unserved_duty
from wakeful.runtime.watch import ServerClock
from wakeful.runtime.watchdog import Watchdog
from wakeful.store.database import Database
from wakeful.store.instances import Registration
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.health import Health
from wakeful.telemetry.metrics import Metrics

RULES_SECONDS: Final = 30.0  # how often the fleet looks at what the rules watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """How this process is seen: its events, its health, its metrics."""

    telemetry: Telemetry
    health: Health
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that one instance consists of. `hot` claims and finishes; `upkeep` does all the rest."""

    settings: Settings
    observed: Observed
    hot: Database
    upkeep: Database
    bells: Bells
    gate: Gate
    lease: Lease
    holdings: Holdings
    attempts: Attempts
    crew: Crew
    finisher: Finisher
    reporter: Reporter
    executing: Executing
    claiming: Claiming
    membership: Membership
    watchdog: Watchdog
    duties: tuple[Duty, ...]
    clock: ServerClock
    sinks: tuple[Sink, ...]

    @property
    def policy(self) -> Policy:
        """What decides who hears of an alert, and when."""
        settings = self.settings
        return Policy(alerts=linked(settings), routes=settings.routes, rules=settings.rules)


def compose(
    settings: Settings,
    registry: Registry,
    observed: Observed,
    *,
    databases: tuple[Database, Database],
    resources: Resources,
    threads: ThreadPool,
    processes: ProcessPool,
) -> Parts:
    """Put an instance together; `databases` are the hot one and the one for upkeep."""
    (hot, upkeep), telemetry = databases, observed.telemetry
    lease, holdings, attempts, clock = Lease(), Holdings(), Attempts(), ServerClock()
    bells = Bells(claimer=Wakeup(), promoter=Alarm(), dispatcher=Wakeup())
    gate, crew = Gate(bells.claimer.ring), Crew(settings.worker.concurrency, bells.claimer)
    finisher = _finisher(settings, hot, holdings, bells)
    executing = Executing(
        find=registry.find,
        resources=resources,
        threads=threads,
        processes=processes,
        attempts=attempts,
        reporter=Reporter(upkeep),
        trailing=TrailingWrites(),
        lease=lease,
        pace=Pace(),
        settings=settings.jobs,
        telemetry=telemetry,
        submit=finisher.submit,
    )
    return Parts(
        settings=settings,
        observed=observed,
        hot=hot,
        upkeep=upkeep,
        bells=bells,
        gate=gate,
        lease=lease,
        holdings=holdings,
        attempts=attempts,
        crew=crew,
        finisher=finisher,
        reporter=executing.reporter,
        executing=traced(executing, settings.tracing),
        claiming=_claiming(scope_of(settings, registry), executing, hot, crew, finisher, bells, gate),
        membership=_membership(settings, registry, executing, upkeep, crew, holdings, bells),
        watchdog=Watchdog(attempts=attempts, lease=lease, telemetry=telemetry, health=observed.health),
        duties=duties_of(settings, upkeep, clock, bells),
        clock=clock,
        sinks=tuple(build_sinks(settings.sinks, telemetry)),
    )


def _finisher(settings: Settings, hot: Database, holdings: Holdings, bells: Bells) -> Finisher:
    flushing = Flushing(database=hot, telemetry=hot.telemetry, lost_limit=settings.reaper.lost_limit)
    return Finisher(flushing, holdings, on_death=bells.dispatcher.ring, on_later=bells.promoter.due_in)


def _claiming(
    scope: Scope,
    executing: Executing,
    hot: Database,
    crew: Crew,
    finisher: Finisher,
    bells: Bells,
    gate: Gate,
) -> Claiming:
    return Claiming(
        database=hot,
        crew=crew,
        holdings=finisher.holdings,
        lease=executing.lease,
        scope=scope,
        pace=executing.pace,
        bell=bells.claimer,
        telemetry=executing.telemetry,
        give_back=lambda one: executing.submit(Conclusion(holding=one, outcome=HandedBack(counted=False))),
        is_open=lambda: gate.open and not finisher.crowded,
        finding=Finding(hints=bells.hints),
    )


def _membership(
    settings: Settings,
    registry: Registry,
    executing: Executing,
    upkeep: Database,
    crew: Crew,
    holdings: Holdings,
    bells: Bells,
) -> Membership:
    declared = published(registry.declarations(), settings.lease)
    return Membership(
        database=upkeep,
        registration=with_rules(registration_of(settings, registry, declared), settings, RULES),
        declarations=declared,
        lease=executing.lease,
        holdings=holdings,
        attempts=executing.attempts,
        crew=crew,
        telemetry=executing.telemetry,
        on_registered=bells.claimer.ring,
    )


def duties_of(settings: Settings, database: Database, clock: ServerClock, bells: Bells) -> tuple[Duty, ...]:
    """What the fleet has to do once, by whichever instance comes first."""
    jobs, reaper = settings.jobs, settings.reaper
    return (
        fold_duty(database),
        job_types_duty(database),
        unserved_duty(
            database,
            unknown_types=jobs.unknown_types,
            grace=jobs.unknown_type_grace,
            on_failed=bells.on_unserved,
        ),
        backstop_duty(
            database,
            clock=clock,
            grace=reaper.backstop,
            lost_limit=reaper.lost_limit,
            on_rescued=bells.on_rescued,
        ),
        ring_duty(database, history=settings.history),
        prune_duty(database, history=settings.history),
        rules_duty(settings, database, bells),
    )


def rules_duty(settings: Settings, database: Database, bells: Bells) -> Duty:
    """Look at what the rules watch; the dispatcher tells of it."""
    evaluating = Evaluating(
        database=database, telemetry=database.telemetry, rules=RULES, settings=settings.rules
    )

    async def perform(stop: anyio.Event) -> None:
        await evaluating.evaluate(stop)
        bells.dispatcher.ring()

    return Duty(name="alert_rules", interval=RULES_SECONDS, perform=perform)


def scope_of(settings: Settings, registry: Registry) -> Scope:
    """What this instance claims, and how long the leases of its types are."""

    def lease_of_type(job_type: str) -> float:
        try:
            return lease_of(registry.find(job_type).declaration, settings.lease)
        except UnknownJobType:
            return settings.lease.default

    every_queue = "*" in settings.worker.queues
    types = registry.job_types()
    return Scope(
        job_types=list(types),
        queues=None if every_queue else list(settings.worker.queues),
        caps={name: queue.concurrency for name, queue in settings.queues.items()},
        lease_of=lease_of_type,
        shortest_lease=min((lease_of_type(one) for one in types), default=settings.lease.default),
    )


def registration_of(
    settings: Settings, registry: Registry, declared: Sequence[Mapping[str, object]]
) -> Registration:
    """What this process says of itself in `wakeful.instance`."""
    host, pid = socket.gethostname(), os.getpid()
    leases = [lease_of(one, settings.lease) for one in registry.declarations()]
    return Registration(
        name=settings.worker.name or f"{host}:{pid}",
        host=host,
        pid=pid,
        version=version(),
        lease=max([settings.lease.default, *leases]),
        every_type=False,
        serves={str(one["job_type"]): str(one["hash"]) for one in declared},
        queues=settings.worker.queues,
    )


def version() -> str:
    """The version of Wakeful that runs."""
    try:
        return metadata.version("wakeful")
    except metadata.PackageNotFoundError:
        return "0+unknown"
