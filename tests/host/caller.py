"""A client of the host that adds nothing of its own: what is sent and what comes back, as it is."""

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from builders import AGENT_ID, a_suite, as_document
from evalwright.contracts.suite import Suite

_OPTION = re.compile(rb"(?<![\w-])--[a-z][a-z-]+")
PATIENCE_S = 240  # a bound for broken code only: nothing waits for it


class Reply(NamedTuple):
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The code of a refusal, which must be in the closed envelope."""
        document = self.json()
        assert {"error", "message"} <= document.keys() <= {"error", "message", "details"}, document
        assert document["details"]["correlationId"] == self.headers["x-correlation-id"]
        code: str = document["error"]
        return code

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and code of a refusal."""
        return self.status, self.error


def refuse_option_names(body: bytes, sent: bytes = b"") -> None:
    """A client over HTTP has no command line, so nothing that it is sent may name an option.

    What it sent itself may be repeated to it. A download is compressed: it may hold any bytes.
    """
    if body.startswith(b"PK\x03\x04"):
        return
    for found in _OPTION.finditer(body):
        assert found[0] in sent, body[max(0, found.start() - 200) : found.end() + 100]


class Frame(NamedTuple):
    """One server-sent event."""

    id: int
    name: str
    data: Any


class Stream:
    """An open stream of server-sent events."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def __iter__(self) -> Iterator[Frame]:
        """The frames, until the host closes the stream."""
        return (frame for frame in self._frames() if frame is not None)

    def _frames(self) -> Iterator[Frame | None]:
        """The frames, and None for each comment."""
        fields: dict[str, str] = {}
        for raw in self._response:
            line = raw.decode().rstrip("\n")
            if line.startswith(":"):
                yield None
            elif line:
                name, _, value = line.partition(": ")
                refuse_option_names(value.encode())
                fields[name] = value
            elif fields:
                yield Frame(int(fields["id"]), fields["event"], json.loads(fields["data"]))
                fields = {}

    def until_comment(self) -> list[Frame]:
        """The frames up to the first comment."""
        frames = []
        for frame in self._frames():
            if frame is None:
                return frames
            frames.append(frame)
        raise AssertionError("the stream ended without a comment")

    def until(self, name: str) -> list[Frame]:
        """The frames up to the first of this name."""
        frames = []
        for frame in self:
            frames.append(frame)
            if frame.name == name:
                return frames
        raise AssertionError(f"the stream ended without {name}")


class Caller:
    """Sends requests to a host, with a key or without."""

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        self.url = url
        self.key = key
        self.address = (str(parts.hostname), int(parts.port or 0))

    def with_key(self, key: str | None) -> "Caller":
        """The same host, another caller."""
        return Caller(self.url, key)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request; what is not bytes goes as JSON."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)
        try:
            response = self._begin(connection, method, path, body, headers)
            found = {name.lower(): value for name, value in response.getheaders()}
            reply = Reply(response.status, found, response.read())
            sent = body if isinstance(body, bytes) else json.dumps([path, body]).encode()
            refuse_option_names(reply.body, sent)
            return reply
        finally:
            connection.close()

    def _begin(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        given = {**({"Authorization": f"Bearer {self.key}"} if self.key else {}), **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            given = {"Content-Type": "application/json", **given}
        connection.request(method, path, body, given)
        return connection.getresponse()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """GET."""
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """POST."""
        return self.send("POST", path, body, headers)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[Stream]:
        """Open a stream, which must be given."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)
        response = None
        try:
            response = self._begin(connection, "GET", path, None, headers)
            assert response.status == 200, response.read()
            yield Stream(response)
        finally:
            if response is not None:
                response.close()
            connection.close()

    # What most tests begin with.

    def publish(self, suite: Suite | dict[str, Any]) -> str:
        """Publish a suite; gives its reference."""
        reply = self.post("/v1/suites", as_document(suite))
        assert reply.status in (200, 201), reply.body
        return str(reply.json()["evalSuiteRef"])

    def create(
        self,
        suite: Suite | str | None = None,
        agent_id: str = AGENT_ID,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Reply:
        """Ask for an evaluation, by a suite that is published first unless it is named."""
        ref = suite if isinstance(suite, str) else self.publish(suite or a_suite())
        body = {"mode": "eval", "evalSuiteRef": ref, "agentId": agent_id, **fields}
        return self.post("/v1/runs", body, headers)

    def start(self, *arguments: Any, **fields: Any) -> str:
        """Create a run, which must be possible; gives its id."""
        reply = self.create(*arguments, **fields)
        assert reply.status == 201, reply.body
        return str(reply.json()["runId"])

    def frames(self, run_id: str, query: str = "streamMode=debug", last: int = -1) -> list[Frame]:
        """All frames after a sequence, when the stream has ended."""
        headers = {"Last-Event-ID": str(last)} if last >= 0 else {}
        with self.stream(f"/v1/runs/{run_id}/events?{query}", headers) as stream:
            return list(stream)

    def finish(self, run_id: str) -> dict[str, Any]:
        """The snapshot of a run, when it has ended."""
        self.frames(run_id)
        return self.snapshot(run_id)

    def snapshot(self, run_id: str) -> dict[str, Any]:
        """A run as it stands."""
        reply = self.get(f"/v1/runs/{run_id}")
        assert reply.status == 200, reply.body
        snapshot: dict[str, Any] = reply.json()
        return snapshot

    def evaluate(self, *arguments: Any, **fields: Any) -> str:
        """Create a run and wait for its end; gives its id."""
        run_id = self.start(*arguments, **fields)
        assert self.finish(run_id)["status"] == "completed"
        return run_id

    def run_ids(self) -> list[str]:
        """The caller's runs, newest first."""
        return [run["runId"] for run in self.get("/v1/runs?limit=200").json()["runs"]]
