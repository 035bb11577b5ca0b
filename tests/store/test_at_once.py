"""Several ends of one job at once, several claimers of one lane: what comes of it is what some order would have given.

An order may leave out a write that steps over a row while another has it locked: such a one comes again, or is judged.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import permutations
from typing import Literal
from uuid import UUID

import pytest

from support.cluster import Cluster
from support.fleet import Claim, Fleet, running_fleet
from support.model import Model, ModelJob

ROUNDS = 50
End = Literal["finish", "fail", "snooze", "cancel", "requeue", "die", "retire", "drain"]
ENDS: tuple[End, ...] = ("finish", "fail", "snooze", "cancel", "requeue", "die", "retire", "drain")
# These wait for a lock, so that nothing leaves them out.
NEVER_LEFT_OUT = {"cancel", "requeue", "die"}


@pytest.mark.case("I5", "I15")
@pytest.mark.parametrize("seed", range(2))
def test_the_ends_of_one_job_at_once_are_one_of_their_orders(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    with running_fleet(cluster) as fleet:
        for _ in range(ROUNDS):
            fleet.begin_anew()
            model, claim = a_running_job(fleet, chance)
            ends = chance.sample(ENDS, chance.randint(2, 4))
            fleet.race([end_of(fleet, claim, one) for one in ends])
            if "die" in ends:
                fleet.call(fleet.reap)
            found = fleet.seen(), fleet.told()
            fits = [one for one in orders(model, claim, ends) if (one.jobs, one.told()) == found]
            assert fits, f"seed {seed}: no order of {ends} gives {found}"
            assert fleet.keys() == fits[0].keys(), f"seed {seed}: {ends}"


@pytest.mark.parametrize("seed", range(2))
def test_claimers_at_once_take_the_first_jobs_of_a_lane_once_each(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    with running_fleet(cluster) as fleet:
        fleet.begin_anew()
        for _ in range(ROUNDS // 2):
            for _ in range(chance.randint(1, 12)):
                fleet.ask("select wakeful.enqueue('S')")
            (lane,) = fleet.lanes()
            limit = chance.randint(1, 4)
            first = fleet.first_of(lane.lane_id, limit * 3)
            made = fleet.claim([0, 1, 2], lane, limit)
            assert sorted(one.job_id for one in made) == sorted(first), f"seed {seed}"
            assert {one.job_id: one.token for one in made} == running_tokens(fleet.seen(), first)
            for one in made:
                assert fleet.call(fleet.finish, one)


def a_running_job(fleet: Fleet, chance: random.Random) -> tuple[Model, Claim]:
    """A job with a key, in some attempt, lost before or not."""
    most, lost = chance.randint(1, 2), chance.randint(0, 2)
    ((job_id,),) = fleet.ask(
        "select job_id from wakeful.enqueue('S', dedupe_key => 'k', max_attempts => $1)", most
    )
    fleet.ask("update wakeful.ready set lost = $1", lost)
    fleet.ask(
        "update wakeful.ready set lane_id = wakeful.lane_id(queue, priority, job_type, limit_key, lost >= 2)"
    )
    model = Model()
    model.jobs[job_id] = ModelJob(queue="default", job_type="S", key="k", max_attempts=most, lost=lost)
    (claim,) = fleet.claim([0], fleet.lanes()[0], 1)
    model.claim(job_id, owner=claim.instance, token=claim.token)
    return model, claim


def end_of(fleet: Fleet, claim: Claim, how: End) -> Callable[[], Awaitable[object]]:
    match how:
        case "finish":
            return partial(fleet.finish, claim)
        case "fail" | "snooze":
            return partial(fleet.settle, claim, how, later=False)
        case "cancel" | "requeue":
            return partial(fleet.ask_for, how, claim.job_id)
        case "retire":
            return partial(fleet.retire, claim.slot)
        case "drain":
            return partial(fleet.leave, claim.slot)
        case _:
            return partial(fleet.die, claim.instance)


def end_in(model: Model, claim: Claim, how: End) -> None:
    match how:
        case "finish":
            model.finish(claim.job_id, claim.token)
        case "fail" | "snooze":
            model.settle(claim.job_id, claim.token, how, later=False)
        case "cancel":
            model.cancel(claim.job_id)
        case "requeue":
            model.requeue(claim.job_id)
        case "die":
            model.lose(claim.instance)
        case _:
            pass  # an instance that retires or drains leaves its jobs as they are


def orders(model: Model, claim: Claim, ends: Sequence[End]) -> Iterator[Model]:
    for size in range(len(ends) + 1):
        for order in permutations(ends, size):
            if NEVER_LEFT_OUT & set(ends) <= set(order):
                result = copy.deepcopy(model)
                for end in order:
                    end_in(result, claim, end)
                yield result


def running_tokens(jobs: dict[UUID, ModelJob], ids: Sequence[UUID]) -> dict[UUID, int | None]:
    return {one: jobs[one].token for one in ids if jobs[one].status == "RUNNING"}
