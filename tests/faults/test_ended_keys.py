"""What goes on with a key ends when the key does: streams that are read or not, and long polls."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.host.access import key_watch
from evalwright.host.access.keys import revoke_key
from evalwright.host.http import app
from evalwright.store.sqlite.log import SqliteLog
from host.attacks.raw_client import connected, request
from host.caller import Caller, Reply
from host.server import ECHO, GATED, TENANT, ServedHost, running_host
from subjects.waiting import Journal, eventually

SETTLING_SECONDS = 0.5  # in which a host fills all buffers
PATIENCE = 120  # for broken code only


@pytest.fixture
def served(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServedHost]:
    for name, value in journal.environment.items():
        monkeypatch.setenv(name, value)
    with running_host(tmp_path / "host.db") as served:
        yield served
        journal.open_gate()


@pytest.fixture
def waiting(served: ServedHost, journal: Journal) -> str:
    """A run that goes on until the test ends."""
    run_id = served.caller().start(a_suite([a_task("task-1", input="wait")]), GATED)
    journal.wait_for(1)
    return run_id


def revoke(served: ServedHost, caller: Caller) -> None:
    """Revoke the key of a caller as another process does: with a connection of its own."""
    assert caller.key is not None
    log = SqliteLog(Path(served.log.place))
    revoke_key(log.records, caller.key.split("_")[-2], datetime.now(UTC))
    log.close()


def end_of(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Work in a thread, and what it gives when it ends."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def test_a_revoked_key_ends_its_streams_and_no_others(served: ServedHost, waiting: str) -> None:
    caller, other = served.caller(), served.caller()
    with (
        caller.stream(f"/v1/runs/{waiting}/events") as stream,
        other.stream(f"/v1/runs/{waiting}/events") as others,
    ):
        stream.until("eval.started")
        others.until("eval.started")
        revoke(served, caller)
        assert list(stream) == []  # it ends
        eventually(lambda: served.host.streams.held_by(TENANT) == 1, "only the other's stream")
        assert caller.get(f"/v1/runs/{waiting}").refusal == (401, "key_revoked")
        assert other.get(f"/v1/runs/{waiting}").status == 200


def test_an_expired_key_ends_its_streams(
    served: ServedHost, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = served.caller().with_key(served.expiring_key(seconds=3600))

    class Later(datetime):
        """The time of day when the key has expired."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=2)

    with caller.stream(f"/v1/runs/{waiting}/events") as stream:
        stream.until("eval.started")
        for module in (key_watch, app):
            monkeypatch.setattr(module, "datetime", Later)
        assert list(stream) == []
    assert caller.get(f"/v1/runs/{waiting}").refusal == (401, "key_expired")


def test_a_long_poll_tells_that_its_key_was_revoked(served: ServedHost, waiting: str) -> None:
    caller = served.caller()
    thread, found = end_of(
        lambda: caller.get(f"/v1/runs/{waiting}/events/poll?lastSequence=1000&timeout=60")
    )
    eventually(lambda: served.host.streams.held_by(TENANT) == 1, "a poll that waits")
    revoke(served, caller)
    thread.join(PATIENCE)
    (reply,) = found
    assert isinstance(reply, Reply)
    assert reply.refusal == (401, "key_revoked")


def test_a_client_that_does_not_read_does_not_keep_its_stream(served: ServedHost) -> None:
    caller = served.caller()
    tasks = [a_task(f"task-{n}", input="x" * 30_000) for n in range(100)]
    run_id = caller.evaluate(a_suite(tasks), ECHO)
    with connected(caller, request(caller, f"/v1/runs/{run_id}/events?streamMode=debug")):
        eventually(lambda: served.host.streams.held_by(TENANT) == 1, "a stream")
        time.sleep(SETTLING_SECONDS)
        assert served.host.streams.held_by(TENANT) == 1, "it was not too long to be sent unread"
        revoke(served, caller)
        eventually(lambda: served.host.streams.held_by(TENANT) == 0, "the end of the stream")
