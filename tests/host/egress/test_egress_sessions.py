"""Sessions behind the guard, over real connections: what is connected to is what was checked."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import aiohttp
import pytest

from evalwright.host.access.egress import Egress, EgressPolicy, EgressRefused
from subjects.endpoint import Endpoint, Reply, answer, serving

PUBLIC = "93.184.215.14"
PRIVATE = EgressPolicy(allow_private=True)


class Names:
    """A resolver whose answers change with every question; the last one stays."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving(lambda request: answer("yes")) as endpoint:
        yield endpoint


def post(egress: Egress, url: str, **options: bool) -> int:
    async def call() -> int:
        async with (
            egress.session(https_only=False) as session,
            session.post(url, data=b"{}", **options) as response,
        ):
            return response.status

    return asyncio.run(call())


def test_a_name_is_looked_up_once_and_connected_to_where_that_lookup_led(endpoint):
    names = Names("127.0.0.1", "127.0.0.2")
    status = post(Egress(PRIVATE, lookup=names), f"http://agent.example.com:{endpoint.port}/")
    assert (status, names.asked) == (200, ["agent.example.com"])
    assert endpoint.requests[0].headers["Host"] == f"agent.example.com:{endpoint.port}"


def test_a_name_that_turns_private_after_it_was_checked_is_not_connected_to(endpoint):
    names = Names(PUBLIC, "127.0.0.1")
    egress = Egress(lookup=names)
    url = f"http://agent.example.com:{endpoint.port}/"
    asyncio.run(egress.check_destination(url, https_only=False))
    with pytest.raises(EgressRefused) as caught:
        post(egress, url)
    assert caught.value.reason == "address_forbidden"
    assert endpoint.requests == []


def test_a_host_that_the_operator_named_is_reached_at_its_private_address(endpoint):
    policy = EgressPolicy(allowed_hosts=frozenset({"agents.internal"}))
    egress = Egress(policy, lookup=Names("127.0.0.1"))
    assert post(egress, f"http://agents.internal:{endpoint.port}/") == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:7f00:1]", "127.1", "2130706433"])
def test_an_address_that_no_resolver_sees_is_refused_all_the_same(endpoint, host):
    with pytest.raises((EgressRefused, aiohttp.InvalidURL)):
        post(Egress(), f"http://{host}:{endpoint.port}/")
    assert endpoint.requests == []


@pytest.mark.parametrize("location", ["http://127.0.0.1:{port}/", "http://169.254.169.254/"])
def test_a_redirect_to_a_forbidden_address_is_not_followed(location):
    with serving(lambda request: Reply(b"", 307, {"Location": places[0]})) as endpoint:
        places = [location.format(port=endpoint.port)]
        policy = EgressPolicy(allowed_hosts=frozenset({"agents.internal"}))
        egress = Egress(policy, lookup=Names("127.0.0.1"))
        url = f"http://agents.internal:{endpoint.port}/"
        assert post(egress, url, allow_redirects=False) == 307
        with pytest.raises(EgressRefused):
            post(egress, url, allow_redirects=True)
    assert len(endpoint.requests) == 2


def test_a_proxy_of_the_environment_is_not_used(endpoint, monkeypatch):
    with serving(lambda request: answer("proxied")) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        post(Egress(PRIVATE), endpoint.url)
    assert (len(endpoint.requests), len(proxy.requests)) == (1, 0)


def test_what_a_server_sets_as_cookies_is_not_sent_back():
    async def call(url: str) -> None:
        async with Egress(PRIVATE).session(https_only=False) as session:
            for _ in range(2):
                async with session.post(url) as response:
                    await response.read()

    cookie = {"Set-Cookie": "who=tenant-a"}
    with serving(lambda request: Reply(b"{}", 200, cookie)) as endpoint:
        asyncio.run(call(f"http://localhost:{endpoint.port}/"))
    assert [each.headers.get("Cookie") for each in endpoint.requests] == [None, None]


def test_a_session_for_https_refuses_http(endpoint):
    async def call() -> None:
        async with Egress(PRIVATE).session(https_only=True) as session:
            await session.post(endpoint.url)

    with pytest.raises(EgressRefused) as caught:
        asyncio.run(call())
    assert caught.value.reason == "scheme_forbidden"


def test_a_slow_lookup_counts_against_the_time_that_a_request_has():
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def call() -> None:
        async with Egress(lookup=never).session(https_only=True, timeout_s=0.05) as session:
            await session.post("https://hooks.example.com/")

    with pytest.raises(TimeoutError):
        asyncio.run(call())


def test_a_name_is_looked_up_anew_for_every_connection(endpoint):
    names = Names("127.0.0.1")

    async def call() -> tuple[int, int]:
        egress = Egress(PRIVATE, lookup=names)
        async with egress.session(https_only=False) as session:
            assert not session.connector.force_close, "it keeps connections unless told otherwise"
        session = egress.session(https_only=False, keep_alive=False)
        assert session.connector.force_close
        async with session:
            for _ in range(2):
                async with session.post(f"http://agent.example.com:{endpoint.port}/") as response:
                    await response.read()
            return session.connector.limit, session.connector.limit_per_host

    assert asyncio.run(call()) == (0, 0)  # whoever calls bounds how many there are
    assert names.asked == ["agent.example.com"] * 2


def test_addresses_are_handed_over_with_their_family():
    async def found() -> list[tuple[str, str, int, int]]:
        async with Egress(PRIVATE, lookup=Both()).session(https_only=False) as session:
            results = await session.connector._resolver.resolve("both.example.com", 81)
        return [(each["hostname"], each["host"], each["port"], each["family"]) for each in results]

    class Both:
        async def __call__(self, host: str, port: int) -> list[str]:
            return ["127.0.0.1", "::1"]

    name = "both.example.com"
    families = [(name, "127.0.0.1", 81, socket.AF_INET), (name, "::1", 81, socket.AF_INET6)]
    assert asyncio.run(found()) == families


def test_names_are_looked_up_in_threads_of_their_own(monkeypatch):
    def note(host: str, port: int, **kind: int) -> list[tuple[object, ...]]:
        asked.append((host, port, kind, threading.current_thread().name.rpartition("_")[0]))
        return [(2, 1, 6, "", (PUBLIC, port))] * 2

    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(socket, "getaddrinfo", note)
    assert asyncio.run(Egress().resolve("hooks.example.com", 443)) == [PUBLIC]
    assert asked == [("hooks.example.com", 443, {"type": socket.SOCK_STREAM}, "egress-lookup")]
