"""A PostgreSQL server for the tests: an ordinary process in a folder of its own, reached by a socket there alone."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

NOBODY = 65534  # whom the server runs as where the tests run as root, which it refuses
PATIENCE = 60.0


def _binaries() -> pathlib.Path | None:
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True) + os.environ.get("PATH", "").split(os.pathsep)
    return next((path for path in map(pathlib.Path, found) if (path / "initdb").exists() and (path / "postgres").exists()), None)


@contextlib.contextmanager
def server() -> Iterator[dict[str, str] | None]:
    """The variables that lead to it; None where PostgreSQL is not installed."""
    bin = _binaries()
    if bin is None:
        yield None
        return
    home = pathlib.Path(tempfile.mkdtemp(prefix="worker-pg-"))
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    if who:
        os.chown(home, NOBODY, NOBODY)
    quiet = {"cwd": home, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | who
    data = home / "data"
    init = [bin / "initdb", f"--pgdata={data}", "--username=gateway", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    subprocess.run(init, check=True, **quiet)
    settings = ["listen_addresses=", f"unix_socket_directories={home}", "fsync=off", "shared_buffers=64MB"]
    words = [bin / "postgres", "-D", data, *(word for each in settings for word in ("-c", each))]
    child = subprocess.Popen(words, **quiet)
    try:
        until = time.monotonic() + PATIENCE
        socket = home / ".s.PGSQL.5432"
        ready = [bin / "pg_isready", "-q", "-h", home]
        while not (socket.exists() and subprocess.run(ready, **quiet).returncode == 0):
            assert child.poll() is None and time.monotonic() < until, "the server does not start"
            time.sleep(0.05)
        yield {"PGHOST": str(home), "PGUSER": "gateway", "PGDATABASE": "postgres"}
    finally:
        child.send_signal(signal.SIGQUIT)
        child.wait()
        shutil.rmtree(home, ignore_errors=True)
