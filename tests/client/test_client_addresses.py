"""Where a client talks to, and where it never sends its key."""

import pytest

from evalwright.client import AsyncClient, Client
from evalwright.client.host_address import parse_address
from evalwright.contracts.errors import BadInput

KEY = "ew_secret_Xq7"

both = pytest.mark.parametrize("kind", [Client, AsyncClient])


@both
@pytest.mark.parametrize(
    "url", ["http://evals.example", "http://10.0.0.7:8787", "http://127.0.0.1.evals.example"]
)
def test_a_key_is_not_sent_over_plain_http_to_another_machine(kind, url):
    with pytest.raises(BadInput, match=r"is not sent over http://.*use https://") as raised:
        kind(url, KEY)
    assert KEY not in str(raised.value)


@both
@pytest.mark.parametrize(
    "url",
    ["https://evals.example", "http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"],
)
def test_a_key_is_sent_over_tls_and_on_this_machine(kind, url):
    assert kind(url, KEY)


@both
def test_without_a_key_any_host_may_be_asked_what_it_can_do(kind):
    assert kind("http://evals.example")


@both
def test_a_key_shows_nowhere(kind):
    client = kind("https://evals.example/team", KEY)
    assert repr(client) == f"{kind.__name__}('https://evals.example:443/team')"
    assert KEY not in repr(client) + repr(vars(client))


@both
@pytest.mark.parametrize("key", ["", "with space", "line\nfeed", "clé"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(kind, key):
    with pytest.raises(BadInput, match="the key is empty or contains characters") as raised:
        kind("https://evals.example", key)
    assert not key or key not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("evals.example", "must begin with https://"),
        ("ftp://evals.example", "must begin with https://"),
        ("https://", "must begin with https://"),
        ("https://me:secret@evals.example", "must not contain a user or a password"),
        ("https://evals.example/?x=1", r"must not contain \? or #"),
        ("https://evals.example/#x", r"must not contain \? or #"),
        ("https://evals.example:99999", "cannot be read"),
        ("https://evals.example/a b", "without spaces"),
        ("https://évals.example", "printable ASCII"),
    ],
)
def test_what_is_no_url_of_a_host_is_refused(url, words):
    with pytest.raises(BadInput, match=words) as raised:
        parse_address(url)
    assert "secret" not in str(raised.value)


def test_a_host_may_live_under_a_path():
    assert parse_address("https://evals.example/team/").prefix == "/team"
