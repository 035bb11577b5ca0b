"""Whose turn it is: by priority, weight and age, and nobody starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from wakeful.core.turns import WEIGHTS, Demand, Turns

ENDLESS = 1_000_000


def demand(
    lane_id: int, priority: str = "normal", *, waiting: float = 0.0, most: int = ENDLESS, chunk: int = 1
) -> Demand:
    return Demand(lane_id=lane_id, priority=priority, waiting=waiting, most=most, chunk=chunk)


def had(turns: Turns, demands: list[Demand], *, slots: int, rounds: int) -> Counter[int]:
    total: Counter[int] = Counter()
    for _ in range(rounds):
        total.update(dict(turns.share(slots, demands)))
    return total


def test_one_lane_gets_every_slot_and_never_more_than_it_wants() -> None:
    assert Turns().share(10, [demand(1)]) == [(1, 10)]
    assert Turns().share(10, [demand(1, most=3)]) == [(1, 3)]
    assert Turns().share(10, [demand(1, most=0)]) == []
    assert Turns().share(0, [demand(1)]) == []


def test_equal_lanes_get_equal_parts() -> None:
    total = had(Turns(), [demand(1), demand(2), demand(3)], slots=10, rounds=30)

    assert max(total.values()) - min(total.values()) <= 1


def test_priorities_share_as_their_weights() -> None:
    lanes = [demand(1, "interactive"), demand(2, "normal"), demand(3, "batch")]
    total = had(Turns(), lanes, slots=1, rounds=1110)

    assert 990 <= total[1] <= 1010
    assert 95 <= total[2] <= 105
    assert 9 <= total[3] <= 11


def test_the_heaviest_lane_is_named_first() -> None:
    lanes = [demand(1, "batch"), demand(2, "interactive"), demand(3, "normal")]

    assert [lane for lane, _ in Turns().share(300, lanes)] == [2, 3, 1]


def test_of_lanes_that_are_level_the_heaviest_has_the_first_slot() -> None:
    lanes = [
        demand(1, "batch"),
        demand(2, "normal", waiting=30.0),
        demand(3, "normal"),
        demand(4, "interactive"),
    ]

    assert Turns().share(1, lanes) == [(4, 1)]
    assert Turns().share(1, lanes[:3]) == [(2, 1)]
    assert Turns().share(1, lanes[:3:2]) == [(3, 1)]


def test_with_all_lanes_full_batch_work_gets_a_slot_in_111_for_each_lane_of_every_priority() -> None:
    turns, lanes = Turns(), [demand(1, "interactive"), demand(2, "normal"), demand(3, "batch")]
    since, longest = 0, 0
    for _ in range(2000):
        since = 0 if dict(turns.share(1, lanes)).get(3) else since + 1
        longest = max(longest, since)

    assert longest <= 111


def test_what_has_waited_for_long_comes_sooner() -> None:
    fresh = had(Turns(), [demand(1, "interactive"), demand(2, "batch")], slots=1, rounds=303)
    waited = had(Turns(), [demand(1, "interactive"), demand(2, "batch", waiting=60.0)], slots=1, rounds=309)

    assert fresh[2] == 3
    assert 8 <= waited[2] <= 10


def test_a_lane_that_was_away_saves_up_no_turns() -> None:
    turns = Turns()
    had(turns, [demand(1)], slots=10, rounds=100)
    both = had(turns, [demand(1), demand(2)], slots=10, rounds=10)

    assert abs(both[1] - both[2]) <= 2


def test_a_lane_that_comes_back_does_not_pay_for_what_it_had_alone() -> None:
    turns = Turns()
    had(turns, [demand(1), demand(2)], slots=2, rounds=5)
    had(turns, [demand(1)], slots=10, rounds=100)
    both = had(turns, [demand(1), demand(2)], slots=10, rounds=10)

    assert abs(both[1] - both[2]) <= 2


def test_a_lane_that_could_take_nothing_for_long_starves_nobody_when_it_can_again() -> None:
    turns, busy = Turns(), demand(1, "interactive")
    had(turns, [busy, demand(2, "batch")], slots=2, rounds=5)
    had(turns, [busy, demand(2, "batch", most=0)], slots=10, rounds=1000)
    both = had(turns, [busy, demand(2, "batch")], slots=10, rounds=10)

    assert both[1] >= 97


def test_slots_that_a_lane_could_not_use_are_not_held_against_it() -> None:
    turns, lanes = Turns(), [demand(1), demand(2)]
    given_first = dict(turns.share(10, lanes))
    turns.refund(lanes[0], given_first[1])
    given_next = dict(turns.share(5, lanes))

    assert given_next == {1: 5}


def test_what_one_lane_does_not_want_goes_to_the_others() -> None:
    shares = dict(Turns().share(10, [demand(1, "interactive", most=2), demand(2), demand(3)]))

    assert shares == {1: 2, 2: 4, 3: 4}


def test_an_unknown_priority_is_treated_as_batch() -> None:
    assert demand(1, "whatever").weight == demand(1, "batch").weight


def test_where_jobs_are_short_a_turn_is_of_many_and_the_parts_are_the_same() -> None:
    lanes = [demand(1, chunk=50), demand(2, chunk=50), demand(3, "batch", chunk=50)]
    turns = Turns()
    assert dict(turns.share(100, lanes)) == {1: 50, 2: 50}

    total = had(turns, lanes, slots=100, rounds=210)
    assert abs(total[1] - total[2]) <= 50
    assert 900 <= total[3] <= 1100


def test_dealing_asks_for_those_only_whose_turn_it_is() -> None:
    turns, lanes, asked = Turns(), {n: demand(n) for n in range(5000)}, []
    for one in lanes.values():
        turns.want(one)

    def demand_of(lane_id: int) -> Demand | None:
        asked.append(lane_id)
        return lanes.get(lane_id)

    first = turns.deal(10, demand_of)
    assert len(asked) == 10
    assert sum(first.values()) == 10
    assert not first.keys() & turns.deal(10, demand_of).keys()


def test_a_lane_of_which_nothing_is_known_any_more_takes_part_no_more() -> None:
    turns = Turns()
    for lane in (1, 2):
        turns.want(demand(lane))
    known = {2: demand(2)}

    assert turns.deal(4, known.get) == {2: 4}
    known[1] = demand(1)
    assert turns.deal(4, known.get) == {2: 4}
    turns.want(known[1])
    assert turns.deal(4, known.get) == {1: 2, 2: 2}


def test_a_lane_that_can_take_nothing_now_is_dealt_to_when_it_can_again() -> None:
    turns = Turns()
    lanes = {1: demand(1, most=0), 2: demand(2)}
    for one in lanes.values():
        turns.want(one)
    assert turns.deal(100, lanes.get) == {2: 100}

    lanes[1] = demand(1)
    assert turns.deal(10, lanes.get) == {1: 5, 2: 5}


DEMANDS = st.lists(
    st.builds(
        demand,
        st.integers(1, 8),
        st.sampled_from(sorted(WEIGHTS)),
        waiting=st.floats(-10, 10_000),
        most=st.integers(0, 20),
        chunk=st.integers(1, 30),
    ),
    max_size=8,
    unique_by=lambda one: one.lane_id,
)


@given(st.lists(st.tuples(st.integers(0, 50), DEMANDS), max_size=30))
def test_whatever_is_asked_slots_are_neither_invented_nor_kept_back(
    rounds: Iterable[tuple[int, list[Demand]]],
) -> None:
    turns = Turns()
    for slots, demands in rounds:
        shares = dict(turns.share(slots, demands))
        most = {one.lane_id: one.most for one in demands}
        assert sum(shares.values()) == min(slots, sum(most.values()))
        assert all(0 < given <= most[lane] for lane, given in shares.items())
