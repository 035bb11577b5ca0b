"""`python -m bench.peers [NAME …]`: peers, the bare program and ours in turn on one server, round after round.

Each round has drain, wake-up and a drain under a held snapshot of everybody, so that the ratios are of one round.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence

from bench import report
from bench.__main__ import add_run_options
from bench.figures import Better, Figure, Outcome, Results, Sample, figure_of, table
from bench.filling import Load
from bench.machine import described
from bench.measures.drain import Drain, drain_held
from bench.measures.drain import drain as drain_ours
from bench.measures.limit import bare
from bench.measures.waking import wake as wake_ours
from bench.peers import measuring
from bench.peers.peers import PEERS, Peer
from bench.sizes import Sizes
from bench.stage import Cluster, Stage, fresh, held_snapshot, make_template, running_cluster

OURS = Drain(name="wakeful", load=lambda jobs: Load(jobs=jobs))
OURS_JOBS = 100_000
EMPTY = "template0"


async def measure(arguments: argparse.Namespace) -> None:
    peers = _present(arguments.names or [peer.name for peer in PEERS])
    with running_cluster() as cluster:
        machine = {**await described(cluster), "peers": ", ".join(one.told for one in peers)}
        await make_template(cluster)
        results = Results()
        for number in range(1, arguments.rounds + 1):
            results.begin_round()
            await _ours(cluster, results, arguments)
            for peer in peers:
                print(f"round {number} of {arguments.rounds}: {peer.name}", file=sys.stderr, flush=True)
                await _peer(cluster, results, peer, arguments)
    figures = [*results.figures(), *_ratios(results.rounds, peers)]
    report.show(machine, figures, rounds=arguments.rounds)
    written = report.write(arguments.out, machine, figures, list(results.series.values()))
    print("\nwritten:\n" + "\n".join(f"  {path}" for path in written))


def _present(names: Sequence[str]) -> list[Peer]:
    """The peers that can be measured; of each other, why not."""
    chosen = [peer for peer in PEERS if peer.name in names]
    for peer in chosen:
        if (why := peer.missing()) is not None:
            print(f"left out: {peer.name}: {why}", file=sys.stderr)
    return [peer for peer in chosen if peer.missing() is None]


async def _ours(cluster: Cluster, results: Results, arguments: argparse.Namespace) -> None:
    """The bare program and ours."""
    jobs = Sizes({"jobs": OURS_JOBS * arguments.scale})
    for kind in (bare, drain_ours(OURS)):
        async with fresh(cluster, "bench") as here:
            _add(results, await kind(here, jobs))
    async with fresh(cluster, "bench") as here:
        waking = await wake_ours(here, Sizes({"jobs": arguments.wakes}))
        renamed = [_renamed(sample, f"wakeful: {sample.name}") for sample in waking.samples]
        _add(results, Outcome(samples=renamed))
    if not arguments.no_held:
        async with fresh(cluster, "bench") as here:
            _add(results, await drain_held(OURS)(here, Sizes({"jobs": OURS_JOBS * arguments.scale / 2})))


async def _peer(cluster: Cluster, results: Results, peer: Peer, arguments: argparse.Namespace) -> None:
    """All that is measured of one peer; what it can't do is told, and stops nobody else."""
    try:
        async with fresh(cluster, "bench_peer", template=EMPTY) as here:
            jobs = max(100, round(peer.jobs * arguments.scale))
            await measuring.install(peer, here)
            drained = await measuring.drain(peer, here, jobs)
            _add(results, Outcome(samples=measuring.samples_of(peer, drained)))
            seconds = await measuring.wake(peer, here, arguments.wakes)
            _add(results, measuring.waking_outcome(peer, seconds))
            if not arguments.no_held:
                _add(results, await _held(here, peer, jobs // 2))
    except (subprocess.CalledProcessError, TimeoutError, StopAsyncIteration) as error:
        said = getattr(error, "stderr", b"") or b""
        print(f"{peer.name} failed: {error}\n{said.decode()[-2000:]}", file=sys.stderr)


async def _held(here: Stage, peer: Peer, jobs: int) -> Outcome:
    """Drain twice while a snapshot is held: the second one walks over what the first has left."""
    async with held_snapshot(here):
        first = await measuring.drain(peer, here, jobs)
        second = await measuring.drain(peer, here, jobs)
    how = f"two drains of {jobs:,} jobs while a snapshot is held open, the second rate by the first"
    value = second.rate / first.rate
    return Outcome(
        samples=[
            Sample(name=f"{peer.name}: held, second / first", value=value, unit="x", better="higher", how=how)
        ]
    )


def _add(results: Results, outcome: Outcome) -> None:
    results.add(outcome)
    print(table(results.latest(outcome)), file=sys.stderr, flush=True)


def _renamed(sample: Sample, name: str) -> Sample:
    return Sample(name=name, value=sample.value, unit=sample.unit, better=sample.better, how=sample.how)


def _ratios(rounds: Sequence[dict[str, Sample]], peers: Sequence[Peer]) -> list[Figure]:
    """Ours by each other, in each round that has both."""
    better: Better = "higher"
    found = []
    for name in ("bare", *(peer.name for peer in peers)):
        values = [
            one["wakeful: rate"].value / one[f"{name}: rate"].value
            for one in rounds
            if f"{name}: rate" in one
        ]
        if values:
            how = "rates of one round"
            sample = Sample(name=f"wakeful / {name}", value=values[0], unit="x", better=better, how=how)
            found.append(figure_of(sample, values))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    known = [peer.name for peer in PEERS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(known)}")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the usual jobs (default: 1)")
    parser.add_argument("--wakes", type=int, default=200, help="wake-ups of each (default: 200)")
    parser.add_argument("--no-held", action="store_true", help="without the drains under a held snapshot")
    add_run_options(parser)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no peer is named {', '.join(unknown)}: there are {', '.join(known)}")
    asyncio.run(measure(arguments))


if __name__ == "__main__":
    main()
