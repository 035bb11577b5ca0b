"""A program: forks a process that is the command `wakeful` for each request that comes over the socket it is given.

Invariant: it runs no command itself, and has no thread. Whoever asks is `support/warm.py`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from support.process import die_with_parent
from wakeful.aio.shutdown import hold_signals
from wakeful.cli.main import main

LONGEST_REQUEST = 1 << 20


def serve(way: socket.socket) -> list[str]:
    """Fork for each request; comes back in the process that is to be the command, with its arguments."""
    while True:
        request, streams, _, _ = socket.recv_fds(way, LONGEST_REQUEST, 3)
        if not request:
            sys.exit(0)
        if (child := os.fork()) == 0:
            way.close()
            return become(request, streams)
        for descriptor in streams:
            os.close(descriptor)
        way.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def become(request: bytes, streams: Sequence[int]) -> list[str]:
    """Take on the environment, the folder and the streams of a command."""
    die_with_parent()
    hold_signals()
    arguments, folder, environ = json.loads(request)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    _take_environment(environ)
    sys.path[0] = folder  # as `python -m wakeful` has it
    sys.argv[1:] = arguments
    return list(arguments)


def _take_environment(environ: Mapping[str, str]) -> None:
    for entry in os.environ["PYTHONPATH"].split(os.pathsep):
        sys.path.remove(entry)
    os.environ.clear()
    os.environ.update(environ)


if __name__ == "__main__":
    command = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main(command))
