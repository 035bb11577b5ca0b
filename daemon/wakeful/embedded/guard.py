"""The step between fork and PostgreSQL: a program of its own that gives up root, ties itself to its parent, and execs.

Run as ``python -I -S guard.py PARENT_PID SIGNAL UID GID NAMESPACE PROGRAM ARGUMENT…`` (it keeps its pid, so PostgreSQL
is a direct child of the caller). PostgreSQL refuses uid 0; a caller that is root therefore names the uid and gid to
become, or NAMESPACE=1: a user namespace in which root's own files belong to that uid, so that nothing is chowned. It
exits with 125 where the system refuses one of these. Standard library only: nothing of the package is imported here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

REFUSED = 125
_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become the wanted user, ask to be signalled when the parent ends, and become the program."""
    # Python would only note it and be replaced; and what a shell runs in its background would ignore it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent, signal_number, uid, gid, namespace = (int(argument) for argument in arguments[:5])
    program = arguments[5:]
    try:
        if namespace:
            _enter_namespace(uid, gid)
        elif uid != os.geteuid():
            _become(uid, gid)
        _follow(parent, signal_number)
        os.execv(program[0], program)
    except OSError as error:
        print(f"guard: {program[0]}: {error}", file=sys.stderr)
        sys.exit(REFUSED)


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _enter_namespace(uid: int, gid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    _libc_call("unshare", _CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outer_gid} 1")


def _follow(parent: int, signal_number: int) -> None:
    if signal_number == 0 or sys.platform != "linux":
        return
    _libc_call("prctl", _PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked: nobody would tell us
        sys.exit(REFUSED)


def _libc_call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


if __name__ == "__main__":
    main(sys.argv[1:])
