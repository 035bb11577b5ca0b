"""The processes of a private server: initdb, PostgreSQL itself as a direct child, and the watch at the death pipe.

Each runs in a session of its own, so that Ctrl-C in a terminal reaches this process and not the server under it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from wakeful.embedded.folder import give_to_owner
from wakeful.embedded.place import USER, Place
from wakeful.errors import EmbeddedUnavailable

_INITDB_SECONDS = 120.0
_STOP_SECONDS = 30.0
_SEND_AGAIN_SECONDS = 1.0
_LAST_WORDS = 4
_STILL_ENDING = "is still in use"  # PostgreSQL's hint while the children of a killed server end
# Waits for the other end of the pipe to close, then tells the server to stop for as long as the pid file names it, and
# clears its socket folder away. A server that has only just been started writes the file within 5 s, or never will.
# Arguments: server's pid, pid file, socket folder.
_WATCH = """
read -r _
tries=0 seen=
while [ "$tries" -lt 300 ]; do
    named=
    [ -r "$2" ] && read -r named < "$2"
    if [ "$named" = "$1" ]; then
        seen=1
        kill -INT "$1"
    elif [ -n "$seen" ] || [ "$tries" -ge 50 ]; then
        break
    fi
    tries=$((tries + 1))
    sleep 0.1
done
rmdir "$3"
"""


def make_cluster(place: Place) -> None:
    """Run initdb and, when all of it is there, give the cluster its name. Raises EmbeddedUnavailable."""
    unfinished = place.folder.unfinished_cluster
    program = [
        *(place.binaries.program("initdb"), "--pgdata", str(unfinished), "--username", USER, "--auth=trust"),
        *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
    ]
    answer = subprocess.run(
        place.identity.command(program, on_parent_end=signal.SIGTERM),
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_INITDB_SECONDS,
        start_new_session=True,
        check=False,
    )
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()[-_LAST_WORDS:]
        raise EmbeddedUnavailable(f"initdb failed in {place.folder.path}: {' / '.join(said)}")
    unfinished.rename(place.folder.cluster)


@contextmanager
def server_process(place: Place, settings: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run PostgreSQL as a direct child, watched; the caller ends it before it leaves the block."""
    with _log(place) as log:
        child = subprocess.Popen(
            place.identity.command(_server_program(place, settings), on_parent_end=signal.SIGINT),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    with _watch(place, child.pid):
        yield child


def end(child: subprocess.Popen[bytes], first: signal.Signals) -> None:
    """Send the signal until the server has ended; one that does not end is sent the harder ones."""
    for number in (first, signal.SIGQUIT, signal.SIGKILL):
        if _ended_by(child, number):
            return
    raise EmbeddedUnavailable(f"PostgreSQL (process {child.pid}) can't be ended")


def _ended_by(child: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    """Sent again each second: one that comes before PostgreSQL has its handlers may be lost, where we ignore it."""
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        child.send_signal(number)
        try:
            child.wait(_SEND_AGAIN_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return True
    return False


def last_words(place: Place) -> str:
    """Give the last lines of the server's log, for a message."""
    try:
        lines = place.folder.log.read_text(errors="replace").strip().splitlines()
    except OSError as error:
        return str(error)
    return " / ".join(lines[-_LAST_WORDS:])


def remains_are_ending(place: Place) -> bool:
    """Whether the server refused only because children of a killed one have not ended yet: start it again."""
    return _STILL_ENDING in last_words(place)


def _server_program(place: Place, settings: Mapping[str, str]) -> list[str]:
    own = {
        "listen_addresses": "",
        "unix_socket_directories": str(place.socket_folder),
        "unix_socket_permissions": "0700",
        "port": place.socket.name.rpartition(".")[2],
    }
    options = [f"--{name}={value}" for name, value in {**settings, **own}.items()]
    return [place.binaries.program("postgres"), "-D", str(place.folder.cluster), *options]


def _log(place: Place) -> IO[bytes]:
    log = place.folder.log.open("ab")
    give_to_owner(log.fileno(), place.folder.path)
    return log


@contextmanager
def _watch(place: Place, pid: int) -> Iterator[None]:
    read_end, write_end = os.pipe()
    arguments = (str(pid), str(place.folder.pid_file), str(place.socket_folder))
    try:
        watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "wakeful-watch", *arguments],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    try:
        yield
    finally:
        watch.kill()
        watch.wait()
        os.close(write_end)


def _environment() -> dict[str, str]:
    """Nothing of the caller's: PGOPTIONS, PGDATA, locale or a loader's path would change what the server does."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
