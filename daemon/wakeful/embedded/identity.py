"""Who the server runs as. PostgreSQL refuses root, and nothing foreign may be chowned, opened up or created for it.

The rule: the server runs as the owner of its data folder, and a new data folder belongs to the owner of the folder that
it is made in. Where that owner is root, a user namespace shows root's files to the server as nobody's; where the system
refuses namespaces (a container's default), the data folder, and nothing above it, is given to nobody.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wakeful.embedded import guard
from wakeful.errors import EmbeddedUnavailable

_PROBE_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The user that the server's processes are, seen from inside; with `namespace`, outside they stay the caller's."""

    uid: int
    gid: int
    namespace: bool

    def command(self, program: Sequence[str], *, on_parent_end: signal.Signals | None) -> list[str]:
        """Give the argument list that runs `program` as this user; it gets the signal when the calling *thread* ends.

        So the signal is asked for on the main thread only; elsewhere the death pipe alone stands guard.
        """
        guarded = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
        number = int(on_parent_end) if on_parent_end is not None and guarded else 0
        if number == 0 and not self.namespace and self.uid == os.geteuid():
            return list(program)
        options = (os.getpid(), number, self.uid, self.gid, int(self.namespace))
        return [sys.executable, "-I", "-S", guard.__file__, *map(str, options), *program]

    def owns(self, folder: Path) -> None:
        """Make a folder of ours usable by this user."""
        if not self.namespace and self.uid != os.geteuid():
            os.chown(folder, self.uid, self.gid)


def choose_identity(owner: int, group: int) -> Identity:
    """Give the identity for a data folder of this owner and group. Raises EmbeddedUnavailable, with what to do."""
    if os.geteuid() != 0:
        return Identity(uid=os.geteuid(), gid=os.getegid(), namespace=False)
    if owner != 0 and _is_known(owner):
        return Identity(uid=owner, gid=group, namespace=False)
    nobody = _nobody()
    inside = Identity(uid=nobody.pw_uid, gid=nobody.pw_gid, namespace=True)
    if sys.platform == "linux" and _works(inside):
        return inside
    return Identity(uid=nobody.pw_uid, gid=nobody.pw_gid, namespace=False)


def _is_known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        others = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
        if not others:
            raise EmbeddedUnavailable(
                "PostgreSQL does not run as root, and this system has no other user: run this as an ordinary user"
            ) from None
        return others[-1]


def _works(identity: Identity) -> bool:
    command = identity.command(["/bin/sh", "-c", ":"], on_parent_end=None)
    probe = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    return probe.returncode == 0
