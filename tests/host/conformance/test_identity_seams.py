"""Whose a run is, as the suite asks for it."""

from host.caller import Caller
from host.conformance.seams import SEAMS, call
from host.server import ServedHost


def test_a_run_says_to_whom_it_belongs(lasting: ServedHost):
    caller = lasting.caller("owning", workspace="blue")
    reply = caller.get(f"{SEAMS}/identity/owned-run")
    owner = reply.json()["owner"]
    assert reply.status == 200
    assert (owner["tenant"], owner["workspace"]) == ("owning", "blue")
    assert owner["principal"].startswith("key:")


def test_a_run_of_another_workspace_is_refused_without_a_word_of_it(newcomer: Caller):
    reply = call(newcomer, "identity/cross-workspace-read")
    assert reply.refusal == (403, "run_forbidden")
    assert set(reply.json()["details"]) == {"correlationId"}
    assert newcomer.run_ids() == []
