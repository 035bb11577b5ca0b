"""What a soak does: its size, its pace, and the row of faults that a seed gives.

Invariant: the same seed gives the same faults in the same order, to the same daemons and as long; only how long the
fleet rests between them depends on how soon it has recovered.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

START_SECONDS = 20.0  # a process on a machine that is busy with others
ANY = "server"  # a fault of the server's, not of one daemon


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The daemons' settings in seconds."""

    lease: float
    beat: float
    reaper: float
    poll: float
    grace: float
    interrupt: float
    statement: float

    @property
    def watch(self) -> float:
        """For how long a reaper looks at an owner before it believes that it is dead."""
        return 3 * self.beat

    @property
    def taken_back(self) -> float:
        """By when the jobs of a dead owner are claimable again, at the latest."""
        return self.lease + self.reaper + self.watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One soak. `rest`: the least pause after a fault; `bound`: the longest until throughput is back after one.

    `margin`: seconds that a machine may be late, added to each bound that is judged; more on a busy one, see `under`.
    """

    name: str
    seed: int
    seconds: float
    rate: float
    timing: Timing
    rest: float
    bound: float
    margin: float
    longest: float  # of a fault that has no length of its own
    daemons: int = 3
    isolated: bool = False
    kinds: tuple[str, ...] = ()  # of faults; none named: all

    def under(self, load: float) -> Plan:
        """The plan as it is judged on a machine with so many processes to run for each of its cores."""
        return replace(self, margin=self.margin * max(1.0, load))

    @property
    def whole(self) -> float:
        """By when every daemon is live again after a fault, also one that has to be started for it."""
        return self.bound + self.timing.lease + START_SECONDS

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the daemons."""
        return tuple(f"d{number}" for number in range(1, self.daemons + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A fault to come: of which kind, to whom, for how long."""

    kind: str
    slot: str
    seconds: float


BRISK = Timing(lease=2.4, beat=0.4, reaper=0.5, poll=0.5, grace=1.0, interrupt=1.0, statement=3.0)
STEADY = Timing(lease=6.0, beat=1.0, reaper=2.0, poll=2.0, grace=5.0, interrupt=2.0, statement=6.0)

SHORT = Plan(
    name="short",
    seed=9,
    seconds=14.0,
    rate=100.0,
    timing=BRISK,
    rest=0.5,
    bound=40.0,
    margin=10.0,
    longest=1.0,
    kinds=("kill", "pause", "drain", "lost_replies", "server_crash", "terminate"),
)
CI = replace(SHORT, name="ci", seconds=170.0, rest=2.0, longest=3.0, kinds=())
LONG = Plan(
    name="long",
    seed=1,
    seconds=1800.0,
    rate=155.0,  # faults keep producers from a quarter of it: 200,000 jobs in all
    timing=STEADY,
    rest=3.0,
    bound=10.0,
    margin=2.0,
    longest=8.0,
    isolated=True,
)


def faults(
    plan: Plan, kinds: Mapping[str, str], *, beyond_lease: frozenset[str]
) -> Iterator[tuple[Planned, ...]]:
    """Give what happens, one after the other and without end; now and then two at once.

    `kinds` says whom each kind is for, a daemon ("slot") or the server; all kinds come before one comes again. Those of
    `beyond_lease` last until others have taken the jobs over.
    """
    chance = random.Random(plan.seed)
    while True:
        deck = sorted(name for name in kinds if not plan.kinds or name in plan.kinds)
        chance.shuffle(deck)
        while deck:
            drawn = [deck.pop()]
            # Never two of the server's: they would undo one another.
            if deck and chance.random() < 0.15 and (kinds[drawn[0]], kinds[deck[-1]]) != (ANY, ANY):
                drawn.append(deck.pop())
            slots = chance.sample(plan.slots, len(drawn))
            yield tuple(
                Planned(
                    kind=kind,
                    slot=ANY if kinds[kind] == ANY else slot,
                    seconds=_seconds(plan, chance, is_long=kind in beyond_lease),
                )
                for kind, slot in zip(drawn, slots, strict=True)
            )


def _seconds(plan: Plan, chance: random.Random, *, is_long: bool) -> float:
    least, most, of = (1.0, 1.3, plan.timing.taken_back) if is_long else (0.3, 1.0, plan.longest)
    return round(chance.uniform(least, most) * of, 2)
