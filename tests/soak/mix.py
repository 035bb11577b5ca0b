"""What producers enqueue: jobs of every temper, as elements of `wakeful.enqueue_many`, drawn from a seeded source."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

Element = dict[str, object]
KEYS = 12


def draw(chance: random.Random, *, lease: float, isolated: bool) -> Element:
    """One job that is not the quick one."""
    weights = {**WEIGHTS, "soak.isolated": 0.3 if isolated else 0.0}
    (job_type,) = chance.choices(list(weights), weights=list(weights.values()))
    made = _MADE.get(job_type)
    return {"job_type": job_type, **(made(chance, lease) if made else {})}


WEIGHTS: Mapping[str, float] = {
    "soak.sleep": 30,
    "soak.thread": 16,
    "soak.steps": 8,
    "soak.long": 7,
    "soak.failing": 6,
    "soak.flaky": 8,
    "soak.snooze": 5,
    "soak.retry": 6,
    "soak.deduped": 9,
    "soak.later": 8,
    "soak.parent": 4,
    "soak.deaf": 0.3,
}


def _lasting(least: float, most: float) -> Callable[[random.Random, float], Element]:
    return lambda chance, _: {"payload": {"seconds": round(chance.uniform(least, most), 3)}}


def _beyond_a_lease(chance: random.Random, lease: float) -> Element:
    return {"payload": {"seconds": round(lease * chance.uniform(0.5, 2.0), 2)}}


def _works_later(chance: random.Random, _: float) -> Element:
    return {"payload": {"works_at": chance.choice([2, 2, 3])}}


def _of_one_subject(chance: random.Random, _: float) -> Element:
    return {"subject": f"subject {chance.randrange(5)}"}


def _with_a_key(chance: random.Random, lease: float) -> Element:
    """One in three waits for a while, so that it can be cancelled; one in three fails until it is DEAD."""
    key = f"key {chance.randrange(KEYS)}"
    match chance.randrange(3):
        case 0:
            return {"dedupe_key": key, "payload": {"seconds": 0.02}}
        case 1:
            return {**_due_later(chance, lease), "dedupe_key": key}
        case _:
            return {"dedupe_key": key, "job_type": "soak.failing"}


def _due_later(chance: random.Random, _: float) -> Element:
    due = datetime.now(UTC) + timedelta(seconds=chance.uniform(0.2, 4.0))
    return {
        "run_after": due.isoformat(),
        "payload": {"due": due.isoformat()},
        "priority": chance.choice(["interactive", "batch"]),
    }


_MADE: Mapping[str, Callable[[random.Random, float], Element]] = {
    "soak.sleep": _lasting(0.01, 0.1),
    "soak.thread": _lasting(0.01, 0.05),
    "soak.isolated": _lasting(0.01, 0.2),
    "soak.deaf": _lasting(0.2, 1.4),
    "soak.long": _beyond_a_lease,
    "soak.flaky": _works_later,
    "soak.failing": _of_one_subject,
    "soak.deduped": _with_a_key,
    "soak.later": _due_later,
}
