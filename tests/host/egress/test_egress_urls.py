"""What the text of a URL shows: which ones are refused before anything is looked up."""

import asyncio
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.access.egress import MAX_URL_LENGTH, Egress, EgressPolicy, EgressRefused
from evalwright.host.access.egress.addresses import kind_of

REFUSED = {
    "http://hooks.example.com/": "scheme_forbidden",
    "ftp://hooks.example.com/": "scheme_forbidden",
    "file:///etc/passwd": "scheme_forbidden",
    "hooks.example.com/x": "scheme_forbidden",
    "https://": "malformed_url",
    "https:///x": "malformed_url",
    "https://[::1": "malformed_url",
    "https://hooks.example.com:x/": "malformed_url",
    "https://hooks.example.com:99999/": "malformed_url",
    "https://hooks.example.com/a b": "malformed_url",
    "https://hooks.example.com/\nx": "malformed_url",
    "https://hooks.example.com\\@127.0.0.1/": "malformed_url",
    "https://hooks.example.com/#part": "malformed_url",
    "https://hooks.example.com/" + "x" * MAX_URL_LENGTH: "malformed_url",
    "https://me:secret@hooks.example.com/": "credentials_forbidden",
    "https://hooks.example.com@127.0.0.1/": "credentials_forbidden",
    "https://hooks.example.com:0/": "port_forbidden",
    "https://hooks.example.com:22/": "port_forbidden",
    "https://hooks.example.com:25/": "port_forbidden",
    "https://localhost/": "host_forbidden",
    "https://LOCALHOST./": "host_forbidden",
    "https://db.localhost/": "host_forbidden",
    "https://intranet/": "host_forbidden",
    "https://metadata/": "host_forbidden",
    "https://metadata.google.internal/computeMetadata/v1/": "host_forbidden",
    "https://printer.local/": "host_forbidden",
    "https://-hooks.example.com/": "host_forbidden",
    "https://hooks..example.com/": "host_forbidden",
    "https://%31%32%37.0.0.1/": "host_forbidden",
    "https://[fe80::1%25eth0]/": "host_forbidden",
    "https://2130706433/": "host_forbidden",
    "https://0x7f000001/": "host_forbidden",
    "https://0x7f.1/": "host_forbidden",
    "https://127.1/": "host_forbidden",
    "https://0177.0.0.1/": "host_forbidden",
    "https://127.0.0.0x1/": "host_forbidden",
    "https://127.0.0.1/": "address_forbidden",
    "https://127.0.0.1./": "address_forbidden",
    "https://10.1.2.3/": "address_forbidden",
    "https://169.254.169.254/latest/meta-data/": "address_forbidden",
    "https://0.0.0.0/": "address_forbidden",
    "https://[::1]/": "address_forbidden",
    "https://[::]/": "address_forbidden",
    "https://[fd00::1]/": "address_forbidden",
    "https://[::ffff:7f00:1]/": "address_forbidden",
    "https://[64:ff9b::10.0.0.1]/": "address_forbidden",
    "https://[2002:7f00:1::]/": "address_forbidden",
}
IN_WORDS = {
    "http://hooks.example.com/": "the URL scheme must be https",
    "https:///x": "the URL has no host",
    "https://[::1": "not a URL: Invalid IPv6 URL",
    "https://hooks.example.com/a b": (
        "the URL must be printable ASCII without spaces or backslashes; encode the rest"
    ),
    "https://hooks.example.com/#part": "the URL must not have a fragment",
    "https://hooks.example.com/" + "x" * MAX_URL_LENGTH: ("the URL is longer than 2048 characters"),
    "https://me:secret@hooks.example.com/": "the URL must not contain credentials",
    "https://hooks.example.com:0/": "port 0 is not a valid port",
    "https://hooks.example.com:22/": ("port 22 is not allowed; use 443, 80 or a port from 1024 up"),
    "https://LOCALHOST./": "localhost is not a public host; use one with a public address",
    "https://hooks..example.com/": (
        "hooks..example.com is not a valid host name; write non-ASCII names as xn--…"
    ),
    "https://0x7f.1/": "0x7f.1 is not a valid address; write it like 192.0.2.1 or [::1]",
    "https://[::1]/": "::1 does not resolve to a public address",
}
ACCEPTED = {
    "https://hooks.example.com/openwop?token=a%20b": ("hooks.example.com", 443),
    "https://HOOKS.example.com.:8443": ("hooks.example.com", 8443),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443),
    "https://8.8.8.8/": ("8.8.8.8", 443),
    "https://[2606:4700::1111]/": ("2606:4700::1111", 443),
}


def refusal(egress: Egress, url: str, *, https_only: bool = True) -> str:
    with pytest.raises(EgressRefused) as caught:
        egress.check_url(url, https_only=https_only)
    return caught.value.reason


@pytest.mark.parametrize(("url", "reason"), REFUSED.items())
def test_a_url_that_leads_elsewhere_than_to_the_public_web_is_refused(url, reason):
    assert refusal(Egress(), url) == reason


def test_every_refusal_of_a_url_says_what_to_write_instead():
    def message(url: str) -> str:
        with pytest.raises(EgressRefused) as caught:
            Egress().check_url(url, https_only=True)
        return str(caught.value)

    assert {url: message(url) for url in IN_WORDS} == IN_WORDS
    with pytest.raises(EgressRefused, match=r"^the URL scheme must be http or https$"):
        Egress().check_url("ftp://hooks.example.com/", https_only=False)


def test_a_url_beyond_ascii_is_refused():
    assert refusal(Egress(), "https://①②⑦.0.0.1/") == "malformed_url"


@pytest.mark.parametrize(("url", "target"), ACCEPTED.items())
def test_a_url_of_the_public_web_is_accepted(url, target):
    assert Egress().check_url(url, https_only=True)[:2] == target


def test_http_is_accepted_where_https_is_not_the_rule():
    assert Egress().check_url("http://agent.example.com/", https_only=False).port == 80
    relaxed = Egress(EgressPolicy(allow_http=True))
    assert relaxed.check_url("http://agent.example.com/", https_only=True).port == 80


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:9/", "https://[::1]/", "https://10.0.0.1/", "https://localhost/"]
)
def test_an_operator_can_allow_private_addresses(url):
    Egress(EgressPolicy(allow_private=True)).check_url(url, https_only=True)


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/",
        "https://[fd00:ec2::254]/",
        "https://metadata.google.internal/",
        "https://0.0.0.0/",
        "https://224.0.0.1/",
    ],
)
def test_metadata_services_stay_refused_where_private_addresses_are_allowed(url):
    reason = refusal(Egress(EgressPolicy(allow_private=True)), url)
    assert reason in {"address_forbidden", "host_forbidden"}


def test_a_host_that_the_operator_named_is_allowed_and_no_other():
    egress = Egress(EgressPolicy(allowed_hosts=frozenset({"Agents.internal", "10.0.0.7"})))
    egress.check_url("https://agents.internal./", https_only=True)
    egress.check_url("https://10.0.0.7:81/", https_only=True)
    assert refusal(egress, "https://other.agents.internal/") == "host_forbidden"
    assert refusal(egress, "https://10.0.0.8/") == "address_forbidden"


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "{:#x}", "0{:o}", "{:#x}.1", "1.{}"]))
def test_an_address_in_an_odd_notation_is_never_accepted(number, notation):
    assert refusal(Egress(), f"https://{notation.format(number)}/") == "host_forbidden"


@given(st.text(max_size=60) | st.text("0123456789abcdefx.:[]%@/#?-", max_size=60))
def test_whatever_is_accepted_is_a_name_or_a_public_address(text):
    try:
        target = Egress().check_url(f"https://{text}", https_only=True)
    except EgressRefused:
        return
    assert target.address is None or kind_of(target.address) == "public"


def looked_up(*addresses: str) -> Egress:
    async def lookup(host: str, port: int) -> list[str]:
        if not addresses:
            raise OSError("unknown")
        return list(addresses)

    return Egress(lookup=lookup)


def test_a_name_with_one_private_address_among_public_ones_is_refused():
    egress = looked_up("93.184.215.14", "10.0.0.1")
    with pytest.raises(EgressRefused) as caught:
        asyncio.run(egress.check_destination("https://hooks.example.com/", https_only=True))
    assert caught.value.reason == "address_forbidden"
    assert "10.0.0.1" not in str(caught.value)


@pytest.mark.parametrize("addresses", [("93.184.215.14",), ()], ids=["public", "unknown"])
def test_a_name_that_is_public_or_unknown_as_yet_is_accepted(addresses):
    egress = looked_up(*addresses)
    asyncio.run(egress.check_destination("https://hooks.example.com/", https_only=True))


def test_the_name_of_this_machine_is_found_by_the_system():
    egress = Egress(EgressPolicy(allow_private=True))
    assert set(asyncio.run(egress.resolve("localhost", 443))) <= {"127.0.0.1", "::1"}


def test_the_guard_does_not_load_the_http_client_before_it_is_needed():
    code = "import sys, evalwright.host.webhooks.outbox; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
