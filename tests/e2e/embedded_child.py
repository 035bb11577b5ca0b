"""A process that the embedded server's tests start, signal and kill: it runs a server and says so on its output.

Arguments: data folder, thread that starts it ("main" or "pool"), what to do with SIGINT ("ignore" or "default"), and
when to end: "told" (its input ends) or "launched" (kill -9 as soon as the server's process is there). Prints the
server's pid and, when it is ready, its socket folder on one line.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wakeful.embedded import Postmaster
from wakeful.errors import EmbeddedUnavailable


def main(data: str, thread: str, on_interrupt: str, until: str) -> int:
    """Run the server until the end that was asked for."""
    if on_interrupt == "ignore":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ThreadPoolExecutor(1) as pool, Postmaster(Path(data)) as postmaster:
        if until == "launched":
            postmaster.prepare()
            if thread == "pool":
                pool.submit(postmaster.launch).result()
            else:
                postmaster.launch()
            print(postmaster.pid, "-", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            server = pool.submit(postmaster.start).result() if thread == "pool" else postmaster.start()
        except EmbeddedUnavailable as error:
            print(error, file=sys.stderr)
            return 1
        print(server.pid, server.socket_folder, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
