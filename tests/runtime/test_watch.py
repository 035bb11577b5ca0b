"""What counts as watched: only time in which this reaper looked often enough to have seen a beat (I1)."""

from __future__ import annotations

from wakeful.runtime.watch import ServerClock, Watch
from wakeful.store.upkeep import Sight

BEAT = 5.0


def sight(*, beat_seq: int = 7, incarnation: int = 1, instance_id: int = 1) -> Sight:
    return Sight(
        instance_id=instance_id,
        incarnation=incarnation,
        name="w1",
        state="live",
        beat_seq=beat_seq,
        silent=3600.0,
        lease=30.0,
        leases_past=1,
        server_clock=0.0,
    )


def watched(watch: Watch, at: float, *sights: Sight, took: float = 0.0) -> dict[int, float]:
    return watch.look(sights or (sight(),), asked_at=at, answered_at=at + took)


def test_an_unmoved_beat_counts_from_the_answer_that_first_showed_it() -> None:
    watch = Watch(beat=BEAT, interval=BEAT)
    assert watch.needed == 3 * BEAT

    assert watched(watch, 100.0, took=0.5) == {1: 0.0}
    assert watched(watch, 105.0) == {1: 4.5}
    assert watched(watch, 110.0) == {1: 9.5}


def test_a_beat_that_moves_begins_anew() -> None:
    watch = Watch(beat=BEAT, interval=BEAT)
    watched(watch, 0.0)
    watched(watch, 5.0)

    assert watched(watch, 10.0, sight(beat_seq=8)) == {1: 0.0}
    assert watched(watch, 15.0, sight(beat_seq=8)) == {1: 5.0}


def test_another_incarnation_under_the_same_id_begins_anew() -> None:
    watch = Watch(beat=BEAT, interval=BEAT)
    watched(watch, 0.0)

    assert watched(watch, 5.0, sight(incarnation=2)) == {1: 0.0}


def test_an_outage_begins_anew() -> None:
    watch = Watch(beat=BEAT, interval=BEAT)
    watched(watch, 0.0)
    watched(watch, 5.0)
    watch.restart()

    assert watched(watch, 10.0) == {1: 0.0}
    assert watched(watch, 15.0) == {1: 5.0}


def test_a_reaper_that_was_paused_between_looks_begins_anew() -> None:
    watch = Watch(beat=BEAT, interval=BEAT)
    watched(watch, 0.0)

    assert watched(watch, 60.0) == {1: 0.0}


def test_a_look_that_was_answered_late_begins_anew() -> None:
    # The server stood still, or we did: nobody could have seen a beat.
    watch = Watch(beat=BEAT, interval=BEAT)
    watched(watch, 0.0)
    watched(watch, 5.0, took=20.0)

    assert watched(watch, 30.0) == {1: 5.0}


def test_looks_that_are_a_little_late_do_not_begin_anew() -> None:
    watch = Watch(beat=BEAT, interval=BEAT)
    watched(watch, 0.0)

    assert watched(watch, 14.0) == {1: 14.0}


def test_an_instance_that_has_gone_is_forgotten() -> None:
    watch = Watch(beat=BEAT, interval=BEAT)
    watched(watch, 0.0, sight(), sight(instance_id=2))
    watched(watch, 5.0, sight(instance_id=2))

    assert watched(watch, 10.0) == {1: 0.0}


def test_a_jump_of_the_servers_clock_is_remembered() -> None:
    clock = ServerClock()
    clock.look(1000.0, asked_at=0.0, answered_at=0.0)
    clock.look(1005.2, asked_at=5.0, answered_at=5.0)
    assert clock.jumped == 0.0

    clock.look(8210.0, asked_at=10.0, answered_at=10.0)
    assert clock.jumped == 7200.0 - 0.2
    clock.look(1015.0, asked_at=15.0, answered_at=15.0)  # set back: what was believed too late stays so
    assert clock.jumped == 7200.0 - 0.2


def test_an_answer_that_was_long_on_its_way_is_no_jump() -> None:
    clock = ServerClock()
    clock.look(1000.0, asked_at=0.0, answered_at=20.0)  # read at the beginning of a wait of 20 s

    clock.look(1030.0, asked_at=30.0, answered_at=30.0)
    assert clock.jumped == 0.0
