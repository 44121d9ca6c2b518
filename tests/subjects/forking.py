"""Commands in processes of their own that need not load Evalwright: they are forked from one that
has. Most of the time of a small command is its imports.

Started as a program with a path, it listens there until its standard input ends. `Forge` starts
it; `client.py`, which it writes for shells, is a command that does as `evalwright` does.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

# What commands load; whatever else they need, they load as always.
LOADED = (
    "evalwright.agents.command",
    "evalwright.agents.python",
    "evalwright.cli.compare",
    "evalwright.cli.completion",
    "evalwright.cli.evaluation",
    "evalwright.cli.exit",
    "evalwright.cli.log_viewer",
    "evalwright.cli.prompts",
    "evalwright.cli.rescore",
    "evalwright.cli.run",
    "evalwright.cli.runs",
    "evalwright.cli.several",
    "evalwright.cli.show",
    "evalwright.cli.validate",
    "evalwright.cli.watchdog",
    "evalwright.comparison.pipeline",
    "evalwright.engine.checks",
    "evalwright.engine.suites.document",
    "evalwright.prompts.lint",
    "evalwright.reports.run.page",
    "evalwright.signals.kinds",
    "evalwright.store.sqlite.log",
)
IS_POSSIBLE = (
    hasattr(os, "pidfd_open")
    and os.environ.get("FORKED") != "0"  # to see whether it matters
    and "COVERAGE_PROCESS_CONFIG" not in os.environ  # counts what it starts itself
)
STREAMS = (("r", "strict"), ("w", "strict"), ("w", "backslashreplace"))
MOST = 1 << 20  # bytes of a request

CLIENT = """#!{python} -IS
import _socket, array, json, os, sys
name = os.path.basename(sys.argv[0])
asked = json.dumps([name, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({path!r})
fds = array.array("i", [0, 1, 2])
server.sendmsg([len(asked).to_bytes(4)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
server.sendall(asked)
code = int(server.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def the_forge() -> "Forge":
    """The one of this process."""
    folder = tempfile.TemporaryDirectory(prefix="forge-")
    forge = Forge(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(forge.close)
    return forge


class Forge:
    """Starts commands by forking a process that has loaded what they need."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "forge.sock")
        self.bin = folder / "bin"  # with commands for shells
        self.bin.mkdir()
        for name in ("evalwright", "prompteval"):
            client = self.bin / name
            client.write_text(CLIENT.format(python=sys.executable, path=self._path))
            client.chmod(0o755)
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__, self._path], stdin=subprocess.PIPE
        )
        while not Path(self._path).exists():
            assert self._server.poll() is None, "it ended"
            time.sleep(0.01)

    def run(
        self,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        seconds: float,
        umask: int | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Run a command to its end: its exit code, and what it printed."""
        asked = json.dumps(["evalwright", [*arguments], str(cwd), {**env}, umask]).encode()
        printed: dict[int, bytes] = {}
        with ExitStack() as opened:
            server = opened.enter_context(socket.socket(socket.AF_UNIX))
            server.settimeout(seconds)
            server.connect(self._path)
            fds = [opened.enter_context(Path(os.devnull).open("rb")).fileno()]
            for _ in range(2):
                reading, writing = os.pipe()
                opened.callback(os.close, reading)
                printed[reading] = b""
                fds.append(writing)
            socket.send_fds(server, [len(asked).to_bytes(4)], fds)
            for each in fds[1:]:
                os.close(each)
            server.sendall(asked)
            _read_all(printed, seconds)
            out, err = printed.values()
            return int(server.recv(16)), out, err

    def close(self) -> None:
        """End the process; commands that still run end with whoever began them."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


def _read_all(printed: dict[int, bytes], seconds: float) -> None:
    """Read pipes to their ends: until nobody is left who might write to them."""
    left, deadline = set(printed), time.monotonic() + seconds
    while left:
        ready, _, _ = select.select(left, [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        for each in ready:
            chunk = os.read(each, MOST)
            printed[each] += chunk
            if not chunk:
                left.remove(each)


def serve(path: str) -> None:
    for name in LOADED:
        import_module(name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    Path(f"{path}.new").rename(path)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)
        asking, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            answer(asking)
        asking.close()


def answer(asking: socket.socket) -> NoReturn:
    """Run a command in a process of its own; if nobody waits for it any more, it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, fds, _, _ = socket.recv_fds(asking, 4, 3)
    size, asked = int.from_bytes(head), b""
    while len(asked) < size:
        asked += asking.recv(MOST)
    pid = os.fork()
    if pid == 0:
        asking.close()
        work(fds, *json.loads(asked))
    for each in fds:
        os.close(each)
    child = os.pidfd_open(pid)
    ready, _, _ = select.select([asking.fileno(), child], [], [])
    if child not in ready:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        asking.sendall(str(code).encode())
    os._exit(0)


def work(
    fds: list[int],
    name: str,
    arguments: list[str],
    cwd: str,
    env: dict[str, str],
    umask: int | None = None,
) -> Any:
    """Be the command."""
    if umask is not None:
        os.umask(umask)
    for place, each in enumerate(fds):
        os.dup2(each, place)
        os.close(each)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(place, mode, encoding="utf-8", errors=errors, closefd=False)
        for place, (mode, errors) in enumerate(STREAMS)
    )
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv = [name, *arguments]
    if hasattr(time, "tzset"):
        time.tzset()
    code: object = 0
    try:
        import_module("evalwright.cli").main(name)
    except SystemExit as left:
        code = left.code
    except BaseException:  # noqa: BLE001 - as Python would, and never back into the server
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # waits as long as Python does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve(sys.argv[1])
