"""The rows of the fault matrix: what is done, what happens, its bound, and the tests that show it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

TAKEN = (
    "jobs claimable within lease + reaper interval (35 s by default; a watch of 15 s more for a fresh reaper)"
)
BACK = "throughput within 10 s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: in words what happens, the bound, and a test beside the soak."""

    happens: str
    bound: str
    test: str


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "kill": Row(
            happens="its jobs are taken back and run elsewhere; charged is a lost owner, no attempt",
            bound=TAKEN,
            test="test_processes_that_die.py::test_a_daemon_killed_again_and_again_loses_no_job",
        ),
        "pause": Row(
            happens="others take its jobs; it learns so when it wakes, and what it still has to write is refused",
            bound=TAKEN,
            test="test_processes_that_die.py::test_a_paused_daemon_finds_its_jobs_taken_and_drops_its_results",
        ),
        "pause_briefly": Row(
            happens="nothing is taken from it; it goes on",
            bound=BACK,
            test="test_reaper.py::test_a_lease_that_is_past_must_also_be_watched_for_three_beats",
        ),
        "drain": Row(
            happens="running jobs finish, or are handed back after the grace with their attempt",
            bound="exit within grace + 5 s (30 s by default)",
            test="test_processes_that_die.py::test_many_deploys_in_a_row_kill_no_job",
        ),
        "reset": Row(
            happens="it connects again; what was under way is sent again or settled by what the database says",
            bound=BACK,
            test="test_processes_that_die.py::test_terminated_connections_cost_no_attempt",
        ),
        "half_close": Row(
            happens="noticed as an end; the same",
            bound=BACK,
            test="test_listener.py::test_it_tries_for_ever_and_says_so_once",
        ),
        "refuse": Row(
            happens="one state of the process, with backoff; others do its work, no job is charged",
            bound=BACK,
            test="test_database.py::test_an_outage_is_one_state_told_once_with_one_prober_for_all_callers",
        ),
        "blackhole": Row(
            happens="it starts nothing at 60 % of the lease, interrupts its handlers at 80 %; others take its jobs",
            bound=TAKEN,
            test="test_database.py::test_a_blackholed_server_holds_no_caller_longer_than_its_deadline",
        ),
        "lost_replies": Row(
            happens="a claim without a reply is given back, a finish without one is found to be done",
            bound=BACK,
            test="test_verdicts.py::test_a_finish_whose_reply_was_lost_is_done_by_this_token",
        ),
        "dead_links": Row(
            happens="each statement has a deadline, the listener an echo; dead connections are replaced",
            bound=BACK,
            test="test_listener.py::test_a_half_open_connection_is_noticed_by_its_silence",
        ),
        "slow": Row(happens="it is slower, the others do more", bound=BACK, test=""),
        "terminate": Row(
            happens="as with a reset",
            bound=BACK,
            test="test_processes_that_die.py::test_terminated_connections_cost_no_attempt",
        ),
        "server_restart": Row(
            happens="results are kept and written afterwards; no owner is taken for dead for it",
            bound="working within 5 s of its return",
            test="test_processes_that_die.py::test_jobs_go_on_through_a_restart_of_the_server",
        ),
        "server_crash": Row(
            happens="the same; a short job whose claim the server forgot runs again, one result counts",
            bound="working within 5 s of its return",
            test="test_forgotten_claims.py::test_a_hurried_claim_that_a_crash_forgets_leaves_one_owner_and_no_result_by_two",
        ),
        "connection_limit": Row(
            happens="those that get one work; the others wait with backoff", bound=BACK, test=""
        ),
        "read_only": Row(
            happens="an outage, told as one",
            bound=BACK,
            test="test_database.py::test_a_server_that_takes_no_writes_is_an_outage",
        ),
        "lock_table": Row(
            happens="claims and results wait or are tried again; handlers go on",
            bound=BACK,
            test="test_stops_in_trouble.py::test_a_stop_waits_for_no_lock_on_the_tables",
        ),
        "lock_rows": Row(
            happens="those jobs wait; no other waits for them",
            bound=BACK,
            test="test_finish.py::test_one_row_that_somebody_has_locked_is_left_and_the_other_99_finish",
        ),
        "vacuum_full": Row(happens="as with a lock on each table", bound=BACK, test=""),
        "old_snapshot": Row(
            happens="dead rows stay; claims start behind them",
            bound=BACK,
            test="test_settling.py::test_of_many_writers_at_random_no_job_is_lost_and_none_is_claimed_twice",
        ),
    }
)
