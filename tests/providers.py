"""A provider of models on loopback that speaks the protocols of OpenAI and Anthropic.

It refuses what the real ones refuse, notes every call, and answers as a test tells it to.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from aiohttp import web

MAX_BODY = 64 * 1024 * 1024


class Call(NamedTuple):
    """What the provider was sent."""

    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any


class Answer(NamedTuple):
    """What it answers."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


Respond = Callable[[Call], Answer | Awaitable[Answer]]


def completion(text: str | None = "yes", *, finish: str = "stop", **more: Any) -> Answer:
    """A chat completion; `message`, `usage` and `choice` add fields to these objects."""
    message = {"role": "assistant", "content": text, **more.get("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": finish, **more.get("choice", {})}
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [choice],
        "usage": {**usage, **more.get("usage", {})},
    }
    return Answer(json.dumps(body).encode())


def tool_call(name: str, arguments: Any, call_id: str = "call_a") -> dict[str, Any]:
    """A tool call as OpenAI writes it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: dict[str, Any], text: str | None = None) -> Answer:
    """A chat completion that asks for tools."""
    return completion(text, finish="tool_calls", message={"tool_calls": list(calls)})


def message(*blocks: dict[str, Any] | str, stop: str = "end_turn", **usage: int) -> Answer:
    """A message of Anthropic."""
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": stop,
        "usage": {"input_tokens": 12, "output_tokens": 3, **usage},
    }
    return Answer(json.dumps(body).encode())


def tool_use(name: str, arguments: Any, call_id: str = "toolu_a") -> dict[str, Any]:
    """A tool call as Anthropic writes it."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def response(*items: dict[str, Any] | str, **more: Any) -> Answer:
    """A response of OpenAI."""
    output = [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": item, "annotations": []}],
        }
        if isinstance(item, str)
        else item
        for item in items
    ]
    usage = {
        "input_tokens": 12,
        "output_tokens": 3,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": "m",
        "output": output,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "usage": usage,
        **more,
    }
    return Answer(json.dumps(body).encode())


def failing(status: int, text: str = "no", headers: Mapping[str, str] | None = None, **more: Any):
    """An error in the form that both providers use."""
    error = {"message": text, "type": "error", **more}
    return Answer(json.dumps({"type": "error", "error": error}).encode(), status, headers or {})


def echoing_headers(call: Call) -> Answer:
    """An error that repeats the headers of the call, as careless gateways do."""
    return failing(401, f"bad credentials in {dict(call.headers)}")


async def hanging(call: Call) -> Answer:
    """No answer, until the provider is shut down."""
    await asyncio.Event().wait()
    raise AssertionError("never")


def after(seconds: float, answer: Answer) -> Respond:
    """An answer with latency."""

    async def respond(call: Call) -> Answer:
        await asyncio.sleep(seconds)
        return answer

    return respond


class FakeProvider:
    """Where the provider is, what it was asked, and how many calls it had at once."""

    def __init__(self, respond: Respond) -> None:
        self.calls: list[Call] = []
        self.most_at_once = 0
        self._at_once = 0
        self._respond = respond
        self.url = ""

    @property
    def bodies(self) -> list[Any]:
        return [call.body for call in self.calls]

    async def handle(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        call = Call(request.path, dict(request.query), request.headers.copy(), body)
        self.calls.append(call)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            answer = complaint_about(call) or self._respond(call)
            if not isinstance(answer, Answer):
                answer = await answer
        finally:
            self._at_once -= 1
        headers = {"Content-Type": "application/json", **answer.headers}
        return web.Response(body=answer.body, status=answer.status, headers=headers)


@contextmanager
def fake_provider(*answers: Answer | Respond) -> Iterator[FakeProvider]:
    """Serve until the context ends: the answers in order, then the last one again and again."""
    provider = FakeProvider(in_order(answers))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        runner = asyncio.run_coroutine_threadsafe(_start(provider), loop).result(120)
        try:
            yield provider
        finally:
            asyncio.run_coroutine_threadsafe(_end(runner), loop).result(120)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def in_order(answers: Sequence[Answer | Respond]) -> Respond:
    """One answer after the other, then the last one again."""
    left = list(answers or [completion()])

    def respond(call: Call) -> Answer | Awaitable[Answer]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer if isinstance(answer, Answer) else answer(call)

    return respond


async def _start(provider: FakeProvider) -> web.AppRunner:
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/{path:.*}", provider.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner


async def _end(runner: web.AppRunner) -> None:
    """Shut the provider down, and leave no answer that is still waited for to the collector."""
    await runner.cleanup()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def complaint_about(call: Call) -> Answer | None:
    """The 400 that a real provider would answer to a body out of form."""
    if call.path.endswith("/messages"):
        reason = _anthropic_complaint(call)
    elif call.path.endswith("/chat/completions"):
        reason = _openai_complaint(call.body)
    elif call.path.endswith(("/responses", "/embeddings")):
        has_all = bool(call.body.get("model")) and bool(call.body.get("input"))
        reason = None if has_all else "model and input are required"
    else:
        return failing(404, f"no such path: {call.path}")
    return failing(400, f"invalid request: {reason}") if reason else None


def _openai_complaint(body: Any) -> str | None:
    if not body.get("model") or not body.get("messages"):
        return "model and messages are required"
    open_calls: set[str] = set()
    for entry in body["messages"]:
        if entry["role"] == "tool":
            if entry.get("tool_call_id") not in open_calls:
                return f"no tool call {entry.get('tool_call_id')}"
            open_calls.discard(entry["tool_call_id"])
        elif open_calls:
            return f"tool calls without an answer: {sorted(open_calls)}"
        open_calls |= {made["id"] for made in entry.get("tool_calls", [])}
    return "tool calls without an answer" if open_calls else None


def _anthropic_complaint(call: Call) -> str | None:
    body = call.body
    if call.headers.get("anthropic-version") not in ("2023-06-01", "2026-10-21"):
        return "anthropic-version: header is required"
    if not body.get("model") or not body.get("max_tokens") or not body.get("messages"):
        return "model, max_tokens and messages are required"
    roles = [entry["role"] for entry in body["messages"]]
    if set(roles) - {"user", "assistant"} or roles[0] != "user":
        return f"roles {roles}"
    open_calls: set[str] = set()
    for entry in body["messages"]:
        blocks = entry["content"]
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return "text content blocks must be non-empty"
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != open_calls:
            return f"tool_use ids {sorted(open_calls)} need tool_result blocks right after"
        open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return f"tool_use ids {sorted(open_calls)} have no results" if open_calls else None
