"""Tools behind an address: the arguments go as JSON, JSON or text comes back."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from evalwright.agents.toolbox import ToolFailed
from evalwright.agents.wire import quoted
from evalwright.contracts.errors import BadInput
from evalwright.contracts.jsonvalue import NotJson, parse
from evalwright.contracts.tools import VARIABLE, HttpCall
from evalwright.models.endpoints import is_loopback

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_QUOTED = 300
_IN_QUERY = ("GET", "DELETE")


class HttpTool:
    """One tool at one address."""

    def __init__(self, call: HttpCall, headers: dict[str, str]) -> None:
        self._call = call
        self._headers = headers
        self._open_session: aiohttp.ClientSession | None = None

    async def call(self, arguments: dict[str, Any]) -> Any:
        sent: dict[str, Any] = {"json": arguments}
        if self._call.method in _IN_QUERY:
            texts = {
                name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
                for name, value in arguments.items()
            }
            sent = {"params": texts}
        try:
            async with self._session().request(
                self._call.method,
                self._call.url,
                allow_redirects=False,
                **sent,
            ) as response:
                chunks, size = [], 0
                async for chunk in response.content.iter_any():
                    size += len(chunk)
                    if size > MAX_ANSWER_BYTES:
                        raise ToolFailed(
                            "tool_error", f"the answer is longer than {MAX_ANSWER_BYTES} bytes"
                        )
                    chunks.append(chunk)
                body = b"".join(chunks)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolFailed("tool_unavailable", without_query(error, self._call.url)) from None
        if not 200 <= response.status < 300:
            said = quoted(body, MAX_QUOTED)
            raise ToolFailed("tool_error", f"the tool answered {response.status}: {said}")
        if not body.strip():
            return None
        if response.content_type == "application/json" or response.content_type.endswith("+json"):
            try:
                return parse(body)
            except NotJson as error:
                message = f"the answer says it is JSON and is not: {error.reason}"
                raise ToolFailed("tool_error", message) from None
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolFailed("tool_error", "the answer is neither JSON nor text") from None

    async def close(self) -> None:
        if self._open_session is not None:
            await self._open_session.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._open_session is None:
            self._open_session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._open_session


def without_query(error: Exception, url: str) -> str:
    """The error in words, without the query of the address, which may hold a token."""
    query = urlsplit(url).query
    words = f"{type(error).__name__}: {error}"
    return words.replace(query, "…") if query else words


def resolve_headers(
    headers: Mapping[str, str], url: str, place: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The headers with the values of their variables, and those variables."""
    resolved, secrets = {}, {}
    for header, text in headers.items():
        resolved[header] = text
        found = VARIABLE.fullmatch(text)
        if found:
            variable = found["name"]
            secrets[variable] = variable_value(variable, f"{place}: the header {header!r}")
            resolved[header] = (found["scheme"] or "") + secrets[variable]
    parts = urlsplit(url)
    if secrets and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        names = ", ".join(secrets)
        raise BadInput(f"{place}: {names} is not sent over http:// to another host; use https://")
    return resolved, secrets


def variable_value(name: str, place: str) -> str:
    """The value of an environment variable that must be there."""
    value = os.environ.get(name)
    if not value:
        raise BadInput(f"{place} needs the environment variable {name}, which is not set")
    return value
