"""Signing in with a key, and what is tried against sessions."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evalwright.host.access.keys import revoke_key
from evalwright.host.v1.api import v1_routes
from evalwright.host.web.sessions import KIND
from evalwright.host.web.sign_in import own_address
from host.caller import Caller
from host.server import ServedHost, running_host
from host.web.visitor import Visitor, signed_in


def cookie_of(visitor: Visitor) -> tuple[str, str]:
    """The name and value of the cookie of the session."""
    ((name, value),) = [each for each in visitor.cookies.items() if "session" in each[0]]
    return name, value


def test_without_a_session_every_page_is_the_form_to_sign_in(lasting: ServedHost):
    stranger = Visitor(lasting.url)
    for path in ("/", "/runs/run_1", "/nothing"):
        answer = stranger.get(path)
        assert answer.status == 401
        assert 'name="key"' in answer.text
        assert f'name="next" value="{path}"' in answer.text


def test_a_key_is_exchanged_for_a_cookie_that_no_script_can_read(lasting: ServedHost):
    visitor = Visitor(lasting.url)
    answer = visitor.sign_in(lasting.key())
    assert (answer.status, answer.location) == (303, "/")
    (cookie,) = [each for each in answer.cookies if "session" in each]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert visitor.get("/").status == 200


@pytest.mark.parametrize(
    "told",
    [
        {"Origin": "https://{place}"},
        {"X_Forwarded_Proto": "https"},
        {"Origin": "https://{place}", "X_Forwarded_Proto": "http"},  # of the inner one of two
    ],
    ids=["browser", "proxy", "proxies"],
)
def test_behind_https_the_cookie_is_secure(lasting: ServedHost, told: dict[str, str]):
    visitor = Visitor(lasting.url)
    visitor.get("/sign-in")
    host, port = visitor.address
    headers = {name: value.format(place=f"{host}:{port}") for name, value in told.items()}
    answer = visitor.post("/sign-in", {"key": lasting.key()}, **headers)
    assert answer.status == 303
    assert all("Secure" in each for each in answer.cookies)


def test_a_wrong_key_is_refused_at_its_field_and_not_repeated(lasting: ServedHost):
    wrong = "ew_" + "a" * 16 + "_" + "b" * 43
    answer = Visitor(lasting.url).sign_in(wrong)
    assert answer.status == 401
    assert 'aria-describedby="key-error"' in answer.text
    assert "This is not a valid key." in answer.text
    assert wrong not in answer.text


def test_no_page_and_no_address_holds_the_key(lasting: ServedHost):
    key = lasting.key()
    visitor = Visitor(lasting.url)
    answer = visitor.sign_in(key)
    assert key not in answer.location + answer.text
    assert key not in visitor.get("/").text
    assert key not in " ".join(visitor.cookies.values())


def test_the_database_holds_no_session_that_could_be_used(lasting: ServedHost):
    _, session = cookie_of(signed_in(lasting.url, lasting.key()))
    kept = lasting.log.records.list(KIND, "")
    assert kept
    assert session not in " ".join(f"{each.key} {each.body!r}" for each in kept)


def test_a_session_that_was_there_before_signing_in_is_not_taken_over(lasting: ServedHost):
    visitor = Visitor(lasting.url)
    visitor.sign_in(lasting.key())
    name, known = cookie_of(visitor)
    victim = Visitor(lasting.url)
    victim.cookies[name] = "chosen-by-somebody-else"
    victim.sign_in(lasting.key())
    assert cookie_of(victim)[1] not in ("chosen-by-somebody-else", known)


def test_signing_out_ends_the_session_for_everybody_who_has_its_cookie(lasting: ServedHost):
    visitor = signed_in(lasting.url, lasting.key())
    copy = Visitor(lasting.url)
    copy.cookies = dict(visitor.cookies)
    assert visitor.post("/sign-out").status == 303
    assert visitor.get("/").status == 401
    assert copy.get("/").status == 401


def test_a_cookie_authenticates_no_request_of_the_protocol(lasting: ServedHost):
    visitor = signed_in(lasting.url, lasting.key())
    closed = [route for route in v1_routes() if not route.is_open]
    assert len(closed) > 20
    answers = {
        (each.method, each.path): visitor.send(
            each.method, re.sub(r"\{\w+\}", "x", each.path), b"{}", Content_Type="application/json"
        ).status
        for each in closed
    }
    assert set(answers.values()) == {401}, answers
    forged = {"Authorization": "Bearer ewk_none_none"}
    assert visitor.get("/v1/runs", **forged).status == 401
    beside = visitor.get("/runs", **forged)
    assert beside.status == 400, "a program with a key is never given a page"
    assert beside.headers["content-type"] == "application/json"
    assert visitor.get("/runs").status == 200


def test_a_session_ends_with_its_key(lasting: ServedHost):
    key = lasting.key()
    visitor = signed_in(lasting.url, key)
    revoke_key(lasting.log.records, key.split("_")[1], datetime.now(UTC))
    answer = visitor.get("/")
    assert answer.status == 401
    assert "is revoked; request a new one" in answer.text


def test_a_session_ends_by_itself_and_the_page_says_so(tmp_path: Path):
    with running_host(tmp_path / "host.db", settings={"session_s": 0.001}) as served:
        visitor = Visitor(served.url)
        assert visitor.sign_in(served.key()).status == 303
        answer = visitor.get("/")  # with the cookie, which outlives the session
        assert answer.status == 401
        assert "Your session has ended." in answer.text


def test_hosts_over_one_database_know_the_same_sessions(tmp_path: Path):
    with running_host(tmp_path / "host.db") as one, running_host(tmp_path / "host.db") as other:
        visitor = signed_in(one.url, one.key())
        elsewhere = Visitor(other.url)
        elsewhere.cookies = {
            f"evalwright_session_{other.url.rpartition(':')[2]}": cookie_of(visitor)[1]
        }
        assert elsewhere.get("/").status == 200


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "evil",
        "javascript:x",
        "/\r\nx",
        "/\N{SNOWMAN}",  # which no header can hold
    ],
)
def test_signing_in_leads_to_no_other_site(lasting: ServedHost, target: str):
    assert own_address(target) == "/"
    visitor = Visitor(lasting.url)
    visitor.get("/sign-in")
    answer = visitor.post("/sign-in", {"key": lasting.key(), "next": target})
    assert (answer.status, answer.location) == (303, "/")


def test_signing_in_leads_back_to_where_the_visitor_was(lasting: ServedHost):
    visitor = Visitor(lasting.url)
    visitor.get("/sign-in")
    answer = visitor.post("/sign-in", {"key": lasting.key(), "next": "/?status=failed"})
    assert answer.location == "/?status=failed"


def test_a_form_without_the_token_of_its_session_is_refused(visitor: Visitor, lasting: ServedHost):
    stolen = signed_in(lasting.url, lasting.key("other")).token
    for token in ("", "x.y", stolen):
        assert visitor.post("/sign-out", {"csrf": token}).status == 403
    assert visitor.get("/").status == 200


def test_a_form_of_another_site_is_refused_even_with_a_token(visitor: Visitor):
    assert visitor.post("/sign-out", Origin="https://evil.example").status == 403
    assert visitor.post("/sign-out", Sec_Fetch_Site="cross-site").status == 403
    assert visitor.post("/sign-out", Sec_Fetch_Site="same-origin").status == 303


def test_what_no_browser_sends_is_refused_as_such(visitor: Visitor):
    for name in ("[::1", "host:port", "host:99999"):
        assert visitor.get("/", Host=name).status == 400
    assert visitor.post("/sign-out", Origin="http://[::1").status == 403
    assert visitor.post("/sign-out", dict.fromkeys(map(str, range(2000)))).status == 400
    assert visitor.get("/").status == 200


def test_nobody_is_signed_in_by_a_form_of_another_site(lasting: ServedHost):
    victim = Visitor(lasting.url)
    assert victim.post("/sign-in", {"key": lasting.key(), "csrf": "x.y"}).status == 403
    assert "evalwright_session" not in " ".join(victim.cookies)


def test_guesses_from_one_address_are_slowed_down(tmp_path: Path):
    rates = {"rates": {"per_address": 1.0, "seconds_of_burst": 2.0}}
    with running_host(tmp_path / "host.db", settings=rates) as served:
        visitor = Visitor(served.url)
        answers = [visitor.sign_in(f"ew_guess{number}").status for number in range(4)]
        assert answers[0] == 401
        assert answers[-1] == 429


def test_the_cookie_opens_no_route_of_the_api(visitor: Visitor, newcomer: Caller):
    assert visitor.get("/v1/runs").status == 401
    assert newcomer.get("/v1/runs").status == 200
