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
            test="test_rescues.py::test_a_daemon_killed_again_and_again_at_any_moment_loses_no_job",
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
            happens="those that get one work; the others wait with backoff",
            bound=BACK,
            test="test_outages.py::test_a_server_without_a_free_connection_is_waited_for_like_one_that_is_away",
        ),
        "read_only": Row(
            happens="an outage, told as one",
            bound=BACK,
            test="test_database.py::test_a_server_that_takes_no_writes_is_an_outage",
        ),
        "lock_table": Row(
            happens="claims and results wait or are tried again; handlers go on",
            bound=BACK,
            test="test_outages.py::test_a_long_lock_on_the_job_tables_starts_nothing_twice_and_charges_nothing",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A fault that is no part of the soak, and the test that shows it."""

    fault: str
    happens: str
    test: str


ALONE = (
    Alone(
        fault="a rolling upgrade under load",
        happens="old and new daemons work side by side; nothing is lost or doubled",
        test="test_rolling_upgrade.py::test_a_rolling_upgrade_under_load_loses_and_doubles_nothing",
    ),
    Alone(
        fault="failover to a synchronous standby",
        happens="daemons find the new server by themselves; nothing is lost or charged",
        test="test_failovers.py::test_through_a_failover_to_a_synchronous_standby_nothing_is_lost_or_charged",
    ),
    Alone(
        fault="failover to an asynchronous standby",
        happens="what it has not heard is run again; nothing stays RUNNING",
        test=(
            "test_failovers.py::test_what_an_asynchronous_standby_has_not_heard_is_run_again_and_nothing_stays_running"
        ),
    ),
    Alone(
        fault="a dump restored elsewhere",
        happens="nothing of the original's runs until `wakeful adopt`",
        test=(
            "test_failovers.py::test_a_copy_restored_from_a_dump_runs_nothing_of_the_originals_until_it_is_adopted"
        ),
    ),
    Alone(
        fault="an outage longer than the lease of most jobs",
        happens=(
            "those with the longer lease go on for 80 % of it; the others are interrupted at 80 % of theirs and handed"
            " back; none is taken by a reaper or charged"
        ),
        test="test_outages.py::test_an_outage_interrupts_no_hour_long_job_and_charges_none_at_all",
    ),
    Alone(
        fault="the clock of the server is set",
        happens="nothing is taken from an owner that beats",
        test="test_reaper.py::test_a_clock_step_of_the_server_takes_nothing_from_an_owner_that_beats",
    ),
    Alone(
        fault="a daemon is paused between its claim and the reaper's pass",
        happens="the late claim is taken back by a later pass",
        test="test_reaper.py::test_a_claim_that_commits_after_the_pass_is_taken_back_by_a_later_one",
    ),
    Alone(
        fault="the database is not there at the start",
        happens="it is waited for, and `/readyz` says why",
        test="test_life_of_a_daemon.py::test_a_database_that_is_not_there_yet_is_waited_for",
    ),
    Alone(
        fault="the database's name is pointed at another address",
        happens="found at the next connect; no restart, nothing charged",
        test="test_moved_hosts.py::test_a_name_that_is_pointed_elsewhere_needs_no_restart",
    ),
    Alone(
        fault="SIGTERM while the database is away",
        happens="a clean and quick exit",
        test="test_life_of_a_daemon.py::test_a_stop_while_the_database_is_away_is_clean_and_quick",
    ),
    Alone(
        fault="a pooler in transaction mode that breaks LISTEN",
        happens="it is said, and polled instead",
        test="test_listener.py::test_behind_a_pooler_that_breaks_listen_it_says_so",
    ),
    Alone(
        fault="a handler that blocks the event loop",
        happens="it is named, and loses no lease",
        test="test_life_of_a_daemon.py::test_a_handler_that_blocks_the_loop_is_named_and_loses_no_lease",
    ),
    Alone(
        fault="a handler that exits, stops the loop, cancels all, forks …",
        happens="the daemon goes on",
        test="test_handlers_that_harm.py::test_whatever_a_handler_does_to_the_process_the_daemon_goes_on",
    ),
    Alone(
        fault="a handler that kills its process, again and again",
        happens="it ends DEAD after three owners; its neighbours are charged nothing",
        test="test_handlers_that_harm.py::test_a_handler_that_ends_the_process_costs_it_and_charges_no_neighbour",
    ),
    Alone(
        fault="C code that holds the interpreter's lock",
        happens='with `isolation = "process"` it stops neither heartbeat nor other jobs',
        test="test_contract_isolation.py::test_a_held_interpreter_stops_neither_the_heartbeat_nor_other_jobs",
    ),
    Alone(
        fault="a session whose last words come before its end",
        happens="the listener listens again",
        test="test_last_words.py::test_a_listener_that_was_told_of_its_end_before_the_end_came_listens_again",
    ),
    Alone(
        fault="requeues by several hands while daemons are killed",
        happens="each runs once a requeue",
        test="test_replays.py::test_each_runs_once_whatever_is_killed_and_however_often_it_is_asked_for",
    ),
    Alone(
        fault="a log that nobody reads",
        happens="jobs and the stop go on",
        test="test_stops_in_trouble.py::test_a_log_that_nobody_reads_stops_neither_jobs_nor_the_stop",
    ),
)
