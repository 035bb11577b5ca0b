"""One daemon as this whole process: signals, logging, handlers and the event loop round `supervisor.live`.

Invariant: signals are held before anything else happens, so that none is lost however early it comes.
"""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from threading import Timer
from typing import Any, Final, TextIO

import anyio

from wakeful.aio.shutdown import Shutdown, hold_signals, watch_signals
from wakeful.composition import Observed
from wakeful.config import Configuration, current_dsn, hidden_in
from wakeful.core.settings import Settings
from wakeful.core.text import only_member
from wakeful.errors import ConfigError, SchemaMismatch
from wakeful.handlers.loading import load_registry
from wakeful.handlers.registry import Registry
from wakeful.runtime.watchdog import exit_hard
from wakeful.starting import Options
from wakeful.sturdy import sturdy_loop
from wakeful.supervisor import EXIT_CONFIG, EXIT_CRASH, live
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import CONFIG_LOADED, THREAD_ABANDONED
from wakeful.telemetry.health import Health
from wakeful.telemetry.logging import configure_logging, log_subscriber, log_wants
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.redaction import Redactor

LEAVING_SECONDS: Final = 2.0
GARBAGE_THRESHOLDS: Final = (20_000, 10, 10)


def observe(settings: Settings, *, stream: TextIO | None = None) -> Observed:
    """Set logging up and give the process's bus, health and metrics; log lines go to `stream` or standard output."""
    redactor = Redactor(hidden_in(settings))
    configure_logging(settings.log, redactor, stream=stream)
    observed = Observed(telemetry=Telemetry(redactor=redactor), health=Health(), metrics=Metrics())
    observed.telemetry.subscribe(log_subscriber, log_wants)
    observed.telemetry.subscribe(observed.metrics.on_event, observed.metrics.wants)
    observed.telemetry.subscribe(observed.health.on_event, observed.health.wants)
    return observed


def run_process(configuration: Configuration, options: Options) -> int:
    """Run a daemon until it is told to stop; gives the exit code. Raises ConfigError and SchemaMismatch."""
    hold_signals()
    settings = configuration.settings
    current_dsn(settings.database)  # without one there is nothing to wait for
    observed = observe(settings)
    path = None if configuration.path is None else str(configuration.path)
    overrides = sorted(
        name for name, origin in configuration.origins.items() if origin.kind in ("environment", "flag")
    )
    observed.telemetry.emit(CONFIG_LOADED, path=path, overrides=overrides)
    registry = load_registry(settings.handlers)
    _spare_the_collector()
    return run_loop(lambda: run_until_stopped(settings, registry, observed, options), observed.telemetry)


def _spare_the_collector() -> None:
    """Leave modules, classes and handlers out of every search for garbage, and search more rarely.

    Jobs in flight are thousands of objects that die without it, by their last reference; with the interpreter's own
    thresholds it took a seventh of all the time in a drain.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


async def run_until_stopped(
    settings: Settings, registry: Registry, observed: Observed, options: Options
) -> int:
    """Watch the signals, and live; the process ends soon after. Raises ConfigError and SchemaMismatch."""
    code = EXIT_CRASH
    try:
        code = await with_signals(
            lambda shutdown: live(settings, registry, observed, shutdown, options), observed.telemetry
        )
        return code
    except (ConfigError, SchemaMismatch):
        code = EXIT_CONFIG
        raise
    finally:
        last_resort = Timer(LEAVING_SECONDS, _leave, (observed.telemetry, code))
        last_resort.daemon = True
        last_resort.start()


def _leave(telemetry: Telemetry, code: int) -> None:
    """End the process: the interpreter would wait for threads and processes that handlers have left, for ever.

    Where there are none it waits for something that was to run at its exit, such as an exporter without its collector:
    that is nobody's fault here.
    """
    main = threading.main_thread()
    threads = [one.name for one in threading.enumerate() if one is not main and not one.daemon]
    processes = [f"process {one.pid}" for one in multiprocessing.active_children()]
    if not threads and not processes:
        exit_hard(code)
    telemetry.emit(THREAD_ABANDONED, jobs=threads + processes)
    exit_hard(EXIT_CRASH)


async def with_signals(body: Callable[[Shutdown], Awaitable[int]], telemetry: Telemetry) -> int:
    """Run `body` with a shutdown that the stop signals ask for; gives its exit code.

    What it raises comes out as it is, without the groups that it passed through.
    """
    shutdown, code = Shutdown(), 0
    try:
        async with anyio.create_task_group() as group:
            await group.start(watch_signals, shutdown, telemetry)
            code = await body(shutdown)
            group.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        raise only_member(raised) from None
    return code


def run_loop(function: Callable[[], Coroutine[Any, Any, int]], telemetry: Telemetry) -> int:
    """Run a coroutine function on a new event loop that no handler can stop."""
    options = {"loop_factory": partial(sturdy_loop, telemetry)}
    return anyio.run(function, backend="asyncio", backend_options=options)
