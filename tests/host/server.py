"""A real host on loopback: in a thread of this process, or as a process of its own."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from builders import AGENT_ID
from evalwright.host.access.keys import SCOPES, create_key
from evalwright.host.host import Host
from evalwright.host.http.server import create_server, open_socket, serve
from evalwright.models.config import Config
from evalwright.store.location import Patience, open_log
from evalwright.store.protocol import EventLog
from host.caller import Caller
from subjects.command import Evalwright, subject
from subjects.waiting import eventually

TENANT = "acme"
SHUTDOWN_S = 0.3  # agents that wait at the gate would use up whatever there is
RIGHT = AGENT_ID  # answers "yes", which is right in the suites of the builders
WRONG = "acme.wrong"
ECHO = "acme.echo"
BROKEN = "acme.broken"
PRICED = "acme.priced"
GATED = "acme.gated"  # notes each task; those whose input is "wait" wait at the journal's gate

AGENTS: dict[str, dict[str, Any]] = {
    RIGHT: {"ref": subject("answers.py:yes")},
    WRONG: {"ref": subject("answers.py:no")},
    ECHO: {"ref": subject("answers.py:echo")},
    BROKEN: {"ref": subject("answers.py:broken")},
    PRICED: {"ref": subject("answers.py:priced")},
    GATED: {"ref": subject("journal.py:wait_at_the_gate")},
}


def new_key(log: EventLog, tenant: str = TENANT, **fields: Any) -> str:
    """The text of a new key, which may do everything unless scopes are named."""
    fields.setdefault("scopes", list(SCOPES))
    return create_key(log.records, datetime.now(UTC), tenant, **fields)[0]


class ServedHost:
    """A host that is being served by a thread of this process."""

    def __init__(self, host: Host, log: EventLog, url: str) -> None:
        self.host = host
        self.log = log
        self.url = url

    def key(self, tenant: str = TENANT, **fields: Any) -> str:
        """A new key of a tenant; `scopes`, `workspace`, `expires_at` and `is_test` may be given."""
        return new_key(self.log, tenant, **fields)

    def expiring_key(self, seconds: float) -> str:
        """A key that is soon of no use."""
        return self.key(expires_at=datetime.now(UTC) + timedelta(seconds=seconds))

    def caller(self, tenant: str = TENANT, **fields: Any) -> Caller:
        """A client with a new key of a tenant."""
        return Caller(self.url, self.key(tenant, **fields))

    def nobody(self) -> Caller:
        """A client without a key."""
        return Caller(self.url)


@contextmanager
def running_host(
    db: Path | str,
    *,
    config: Config | None = None,
    settings: Mapping[str, Any] | None = None,
    patience: Patience | None = None,
    **more: Any,
) -> Iterator[ServedHost]:
    """Serve a host until the context ends; `settings` are those of `[host]` beside the agents."""
    log = open_log(str(db), patience)
    table = {"agents": AGENTS, "shutdown_s": SHUTDOWN_S, **(settings or {})}
    host = Host(log, config or Config(host=table), **more)
    listener = open_socket("127.0.0.1", 0)
    listening = threading.Event()
    server = create_server(host, listening.set)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            serve(server, listener)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread of the test
            failures.append(error)
        finally:
            listening.set()

    thread = threading.Thread(target=work, name="host")
    thread.start()
    try:
        listening.wait()
        assert not failures, failures
        yield ServedHost(host, log, f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
        log.close()
    assert not failures, failures


class HostProcess:
    """`evalwright serve`, which may be killed, stopped and started again with the same log."""

    def __init__(
        self, command: Evalwright, environment: Mapping[str, str], name: str = "host"
    ) -> None:
        self.db: Path | str = command.folder / "host.db"
        self._command = command
        self._environment = environment
        self._output = command.folder / f"{name}.txt"
        self._config = command.folder / "evalwright.toml"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.configure()

    def twin(self) -> "HostProcess":
        """Another process, with the same settings and the same log."""
        return HostProcess(self._command, self._environment, "twin")

    def configure(self, lines: Iterable[str] = (), without: Iterable[str] = ()) -> None:
        """Write the settings: these lines of `[host]`, and the agents but some."""
        agents = [
            f"[host.agents.{json.dumps(agent_id)}]\nref = {json.dumps(agent['ref'])}"
            for agent_id, agent in AGENTS.items()
            if agent_id not in without
        ]
        lines = [*lines]
        if not any(line.startswith("shutdown_s") for line in lines):
            lines.append(f"shutdown_s = {SHUTDOWN_S}")
        self._config.write_text("\n".join(["[host]", *lines, *agents]))

    def start(self, *arguments: str) -> None:
        """Start, and wait until it listens."""
        with self._output.open("wb") as output:
            self._process = self._command.start(
                *("serve", "--port", "0", "--db", str(self.db), "--config", str(self._config)),
                *arguments,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.url = eventually(self._address, "an address in the host's output")

    def _address(self) -> str | None:
        assert self._process is not None
        assert self._process.poll() is None, self.output
        found = re.search(r"listening on (http://\S+?),", self.output)
        return found[1] if found else None

    @property
    def output(self) -> str:
        """All that it has printed since its start."""
        return self._output.read_text()

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        assert self._process is not None
        return self._process.wait(timeout=240)

    def stop(self) -> int:
        """Ask it to stop; gives its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def caller(self, tenant: str = TENANT, **fields: Any) -> Caller:
        """A client with a new key of a tenant."""
        log = open_log(str(self.db))
        try:
            return Caller(self.url, new_key(log, tenant, **fields))
        finally:
            log.close()
