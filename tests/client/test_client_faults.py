"""Hosts that are busy, broken, gone or something else: errors say so, and nothing is done twice."""

import datetime
import ipaddress
import re
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from builders import AGENT_ID, SUITE_ID, a_suite, a_task
from client.wire import answer, saying, stream, whole_stream
from evalwright.client import HostError, Retries, Unreachable, stream_position
from host.server import GATED
from subjects.ports import lasting_port

KEY = "ew_secret_Xq7"
CREATED = b'{"runId":"run_a","status":"running","eventsUrl":"/v1/runs/run_a/events"}'
BUSY = answer(b'{"error":"service_unavailable","message":"later"}', 503, Retry_After="0")
LATER = answer(b'{"error":"rate_limited","message":"slower"}', 429, Retry_After="99")
REF = f"{SUITE_ID}@1.0.0"


def event(sequence: int, kind: str) -> bytes:
    return (
        b'id: %d\ndata: {"eventId":"e%d","runId":"run_a","type":"%s","payload":{},'
        b'"timestamp":"2026-01-01T00:00:00Z","sequence":%d}\n\n'
    ) % (sequence, sequence, kind.encode(), sequence)


def header(heard: str, name: str) -> str:
    return re.search(rf"(?im)^{name}: (.*?)\r?$", heard)[1]


def test_a_busy_host_is_asked_again_with_the_same_idempotency_key(connect):
    with saying([BUSY, b"", answer(CREATED, 201)]) as wire:
        assert connect(wire.url, KEY).create_run("a@1.0.0", "agent").run_id == "run_a"
    assert len(wire.heard) == 3
    assert len({header(heard, "Idempotency-Key") for heard in wire.heard}) == 1
    assert len({heard.partition("\r\n\r\n")[2] for heard in wire.heard}) == 1


def test_a_host_that_asks_for_too_much_patience_is_reported_with_it(connect):
    with saying([LATER]) as wire, pytest.raises(HostError) as refusal:
        connect(wire.url, KEY).run("run_a")
    assert (refusal.value.code, refusal.value.retry_after) == ("rate_limited", 99)
    assert len(wire.heard) == 1


def test_a_host_that_stays_busy_is_given_up(connect):
    with saying([BUSY] * 9) as wire, pytest.raises(HostError, match="503"):
        connect(wire.url, KEY, retries=Retries(limit=2, chance=lambda: 0.0)).run("run_a")
    assert len(wire.heard) == 3


def test_nobody_there_is_an_error_that_names_the_address(connect):
    with saying([]) as wire:
        pass
    with pytest.raises(Unreachable, match=re.escape(wire.url)):
        connect(wire.url, KEY, retries=Retries(limit=1)).run("run_a")


def test_a_key_follows_no_redirect(connect):
    with saying([answer(CREATED)]) as elsewhere:
        away = answer(b"", 307, Location=f"{elsewhere.url}/v1/runs/run_a")
        with saying([away]) as wire, pytest.raises(HostError, match="the key was not forwarded"):
            connect(wire.url, KEY).run("run_a")
    assert elsewhere.heard == []


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b"\xff", b'{"runId": 7}'])
def test_an_answer_of_something_else_is_an_error(connect, body):
    with saying([answer(body)]) as wire, pytest.raises(HostError) as refusal:
        connect(wire.url, KEY).run("run_a")
    assert refusal.value.code == "unexpected_answer"


def test_a_refusal_by_something_else_is_an_error(connect):
    with saying([answer(b"<html>Forbidden", 403)]) as wire, pytest.raises(HostError) as refusal:
        connect(wire.url, KEY).run("run_a")
    assert refusal.value.message == "not the answer of an evaluation host"
    assert refusal.value.status == 403


def test_an_answer_that_is_cut_off_is_asked_for_again(connect):
    cut = answer(b'{"runId":', Content_Length="500")
    whole = answer(b'{"runId":"run_a","workflowId":"w","status":"running"}')
    with saying([cut, whole]) as wire:
        assert connect(wire.url, KEY).run("run_a").status == "running"


def test_a_host_that_does_not_answer_is_given_up(connect):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = connect(url, KEY, retries=Retries(limit=0), timeout_s=0.05)
        with pytest.raises(Unreachable, match="no answer in time"):
            client.run("run_a")


def test_a_stream_that_falls_silent_is_taken_for_dead(connect, monkeypatch):
    monkeypatch.setattr(stream_position, "SILENCE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no answer in time"):
            list(connect(url, KEY, retries=Retries(limit=1)).events("run_a"))


def test_a_stream_is_taken_up_after_the_last_event_that_came(connect):
    whole, cut = event(0, "run.started"), event(1, "eval.started")
    answers = [
        stream(whole + cut[:40]),
        b"",
        BUSY,
        stream(cut),
        whole_stream(event(2, "run.completed")),
    ]
    with saying(answers) as wire:
        told = list(connect(wire.url, KEY).events("run_a"))
    assert [each.sequence for each in told] == [0, 1, 2]
    assert "last-event-id" not in wire.heard[0].lower()
    places = [header(heard, "Last-Event-ID") for heard in wire.heard[1:]]
    assert places == ["0", "0", "0", "1"]


def test_a_stream_that_ends_in_good_order_before_the_run_does_goes_on(connect):
    running = answer(b'{"runId":"run_a","workflowId":"w","status":"running"}')
    answers = [
        whole_stream(event(0, "run.started")),
        running,
        whole_stream(event(1, "run.cancelled")),
    ]
    with saying(answers) as wire:
        told = list(connect(wire.url, KEY).events("run_a"))
    assert [each.type for each in told] == ["run.started", "run.cancelled"]


def test_a_stream_that_is_refused_is_an_error(connect):
    missing = answer(b'{"error":"not_found","message":"no"}', 404)
    with saying([missing]) as wire, pytest.raises(HostError, match="404 not_found"):
        list(connect(wire.url, KEY).events("run_a"))


def test_a_stream_that_nobody_reads_to_the_end_is_let_go(connect):
    with saying([stream(event(0, "run.started"))]) as wire:
        told = connect(wire.url, KEY).events("run_a")
        assert next(told).sequence == 0
        told.close()


def test_a_host_that_is_killed_and_started_again_is_followed_to_the_end(process, connect, journal):
    port = str(lasting_port())
    process.start("--port", port)
    patient = Retries(limit=1_000, longest_wait_s=0.2)  # a busy machine takes its time
    client = connect(process.url, process.caller().key, retries=patient)
    suite = a_suite([a_task("task-1", input="go"), a_task("task-2", input="wait")])
    run_id = client.create_run(client.publish_suite(suite).eval_suite_ref, GATED).run_id
    told = client.events(run_id, mode="debug")
    seen = [next(told)]
    while seen[-1].type != "eval.scored":
        seen.append(next(told))

    def come_back() -> None:
        process.kill()
        journal.open_gate()
        process.start("--port", port)

    again = threading.Thread(target=come_back)
    again.start()
    seen += told
    again.join()
    assert [each.sequence for each in seen] == list(range(len(seen)))
    assert seen[-1].type == "run.completed"
    assert client.summary(run_id).passed


@pytest.fixture
def certificate(tmp_path):
    """A certificate for this machine that nobody has signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return file


@pytest.fixture
def tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_a_host_with_a_certificate_that_is_not_trusted_gets_no_key(connect, tls):
    with saying([answer(CREATED)] * 9, tls) as wire, pytest.raises(Unreachable) as raised:
        connect(wire.url, KEY).run("run_a")
    assert "the certificate is not trusted" in str(raised.value)
    assert not any(KEY in heard for heard in wire.heard)


def test_a_certificate_of_ones_own_may_be_trusted(connect, tls, certificate):
    told = answer(b'{"runId":"run_a","workflowId":"w","status":"running"}')
    with saying([told, whole_stream(event(0, "run.completed"))], tls) as wire:
        client = connect(wire.url, KEY, ca_file=str(certificate))
        assert client.run("run_a").status == "running"
        assert len(list(client.events("run_a"))) == 1
    assert header(wire.heard[0], "Authorization") == f"Bearer {KEY}"


def test_no_error_shows_the_key(connect):
    with saying([]) as wire:
        pass
    with pytest.raises(Unreachable) as raised:
        connect(wire.url, KEY, retries=Retries(limit=0)).create_run("a@1.0.0", AGENT_ID)
    chain, error = [], raised.value
    while error is not None:
        chain.append(repr(error))
        error = error.__cause__
    assert KEY not in "".join(chain)
