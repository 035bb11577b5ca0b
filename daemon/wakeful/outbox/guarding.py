"""Steps of the dispatcher that outlive whatever goes wrong in them.

Invariant: only an outage leaves a step, since it is for its caller to wait for its end; any other error is told, with
what it was, and the dispatcher goes on without what this step would have given. What is wrong with one alert alone is
set aside by `folding` and `composing`, so that this is for what nobody thought of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from wakeful.errors import StoreUnavailable
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import OUTBOX_STEP_FAILED

T = TypeVar("T")


async def attempted(step: str, call: Callable[[], Awaitable[T]], otherwise: T, telemetry: Telemetry) -> T:
    """Give what `call` gives, or `otherwise` where it fails. Raises StoreUnavailable in an outage."""
    try:
        return await call()
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 -- one thing that nobody thought of must not keep all else from people
        telemetry.emit(OUTBOX_STEP_FAILED, step=step, error=error)
        return otherwise
