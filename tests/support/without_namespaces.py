"""Runs a command as root on a system that refuses user namespaces, as a container's default does.

``python without_namespaces.py COMMAND…``: a user namespace of our own, every user mapped to itself, whose own limit of
further namespaces is nought. So the refusal that the command meets is the kernel's, not a stand-in's.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_EVERYBODY = "0 0 65536"


def main(command: list[str]) -> int:
    """Run the command and give its exit code."""
    entered_read, entered_write = os.pipe()
    mapped_read, mapped_write = os.pipe()
    child = os.fork()
    if child == 0:
        if ctypes.CDLL(None).unshare(_CLONE_NEWUSER) != 0:
            os._exit(125)
        os.write(entered_write, b"!")
        os.read(mapped_read, 1)
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
        os.execvp(command[0], command)
    os.read(entered_read, 1)
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{child}/{name}").write_text(_EVERYBODY)
    os.write(mapped_write, b"!")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
