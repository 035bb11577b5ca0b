"""A PgBouncer in transaction mode in front of a test's server, as many a managed PostgreSQL has."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.proxy import Proxy

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
WHERE_FROM = "PgBouncer is not installed: apt-get install pgbouncer"
_CONFIG = """
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
{more}
"""


@contextmanager
def running_pooler(proxy: Proxy, *, more: str = "") -> Iterator[int]:
    """Run one in front of what the proxy leads to, until the block ends; gives its port. `more`: lines of its own."""
    assert PROGRAM is not None, WHERE_FROM
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="wakeful-pooler-") as folder:
        config = Path(folder) / "pgbouncer.ini"
        config.write_text(_CONFIG.format(server=proxy.port, port=port, more=more))
        Path(folder).chmod(0o755)
        config.chmod(0o644)
        as_nobody = ["-u", "nobody"] if os.geteuid() == 0 else []  # it refuses to be root
        process = subprocess.Popen(
            [PROGRAM, *as_nobody, str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            _wait_for(process, port)
            yield port
        finally:
            process.kill()
            process.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(0.1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    _, said = process.communicate()
    raise AssertionError(f"PgBouncer did not start: {said.decode(errors='replace')}")
