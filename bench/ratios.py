"""Ratios within one round: what a machine's good and bad minutes leave as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.figures import Better, Figure, Sample, figure_of
from bench.measures.enqueueing import CONNECTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One figure divided by another of the same round."""

    name: str
    of: str
    to: str
    better: Better = "higher"


RATIOS = (
    Ratio(name="drain / bare", of="drain: rate", to="bare: rate"),
    Ratio(name="drain-100 / drain", of="drain-100: rate", to="drain: rate"),
    Ratio(name="drain-threads / drain", of="drain-threads: rate", to="drain: rate"),
    Ratio(name="drain-1k / drain", of="drain-1k: rate", to="drain: rate"),
    Ratio(name="drain-10k / drain", of="drain-10k: rate", to="drain: rate"),
    Ratio(name="drain-queues / drain", of="drain-queues: rate", to="drain: rate"),
    Ratio(name="drain-two / drain", of="drain-two: rate", to="drain: rate"),
    Ratio(name="drain-four / drain", of="drain-four: rate", to="drain: rate"),
    *(
        Ratio(name=f"{what}: {cost} / small", of=f"{what}: {cost}", to=f"small: {cost}", better="lower")
        for what in ("backlog", "history", "running", "lanes")
        for cost in ("enqueue", "claim a job")
    ),
    *(
        Ratio(
            name=f"enqueue: hot / {other}, {connections} connections",
            of=f"enqueue: hot, {connections} connections",
            to=f"enqueue: {other}, {connections} connections",
        )
        for connections in CONNECTIONS
        for other in ("wake-ups off", "bare INSERT")
    ),
    *(
        Ratio(
            name=f"enqueue-busy: wake-ups on / off, {connections} connections",
            of=f"enqueue-busy: wake-ups on, {connections} connections",
            to=f"enqueue-busy: wake-ups off, {connections} connections",
        )
        for connections in CONNECTIONS[1:]
    ),
)


def ratios_of(rounds: list[dict[str, Sample]]) -> Iterator[Figure]:
    """Those whose both figures were measured, in every round that has them."""
    for ratio in RATIOS:
        values = [
            _divided(ratio, samples) for samples in rounds if ratio.of in samples and ratio.to in samples
        ]
        if values:
            how = f"{ratio.of} divided by {ratio.to}, in each round"
            sample = Sample(name=ratio.name, value=values[0], unit="x", better=ratio.better, how=how)
            yield figure_of(sample, values)


def _divided(ratio: Ratio, samples: Mapping[str, Sample]) -> float:
    return samples[ratio.of].value / samples[ratio.to].value
