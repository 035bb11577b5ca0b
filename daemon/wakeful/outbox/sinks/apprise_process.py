"""The program that runs Apprise: reads one message on standard input, and says by its exit code what became of it.

Invariant: it imports nothing of the daemon, and its exit codes are all that it tells.
"""

from __future__ import annotations

import json
import math
import signal
import sys
from importlib import import_module
from typing import Final

SOME_FAILED: Final = 10
NOT_UNDERSTOOD: Final = 11
GRACE_SECONDS: Final = 5


def main() -> int:
    """Send it to all URLs; 0 where each of them worked."""
    message = json.load(sys.stdin)
    # Ends it whatever it hangs in: nobody else does, if the daemon that started it was killed meanwhile.
    signal.alarm(math.ceil(message["seconds"]) + GRACE_SECONDS)
    apprise = import_module("apprise")
    told = apprise.Apprise()
    understood = [bool(told.add(url)) for url in message["urls"]]
    if not all(understood):
        return NOT_UNDERSTOOD
    return 0 if told.notify(title=message["title"], body=message["body"]) else SOME_FAILED


if __name__ == "__main__":
    sys.exit(main())
