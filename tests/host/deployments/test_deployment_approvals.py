"""Promotions that wait for people: several of them, in time, and none for themselves."""

import asyncio

import msgspec
import pytest
from deploying import AGENT_ID, a_key, accept, activate, ask

from evalwright.host.deployments.approvals import Ballot
from evalwright.host.deployments.model import (
    AlreadyVoted,
    ApprovalPending,
    Conflict,
    EvalGateUnmet,
    GateClosed,
    IllegalTransition,
    NoSuchGate,
    NotAllowed,
)
from evalwright.host.http.settings import ApprovalSettings
from evalwright.host.runs.handle import RunHandle
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange

ANN, BEN, CY = a_key("ann"), a_key("ben"), a_key("cy")
OWNER = a_key("owner", "deploy:promote", "workspace:write")
REJECT = Ballot("reject", "not on a Friday")


class Waiting:
    """A version that `ops` asked to promote to active, and that waits for approval."""

    def __init__(self, desk, *, policy=None, version="1.0.0", **approval):
        self.desk = desk
        self.version = version
        self.deployments = desk.deployments(approval=ApprovalSettings(**approval), **(policy or {}))
        for _ in range(2):
            asyncio.run(ask(self.deployments, version=version))
        self.asked = asyncio.run(ask(self.deployments, version=version))
        self.run_id = self.asked.run_id

    def vote(self, key, ballot=None, node="approval"):
        voted = self.deployments.vote(key, self.run_id, node, ballot or accept())
        return asyncio.run(voted)

    @property
    def record(self):
        records = asyncio.run(self.deployments.list("acme", AGENT_ID))
        return next(record for record in records if record.version == self.version)

    @property
    def types(self):
        return self.desk.types(self.run_id)


def test_a_promotion_that_needs_approval_changes_nothing_yet_and_says_what_it_waits_for(desk):
    waiting = Waiting(desk, quorum=2, timeout_s=60)
    assert waiting.asked.status == "waiting-approval"
    assert (waiting.record.state, waiting.record.channels) == ("staged", ())
    assert waiting.asked.record == waiting.record
    *_, (kind, question) = desk.events(waiting.run_id)
    assert kind == "interrupt.requested"
    assert question == {
        "nodeId": "approval",
        "interruptId": waiting.record.approval_gate_id,
        "kind": "approval",
        "key": f"{waiting.run_id}:approval:0",
        "data": {
            "artifactId": f"{AGENT_ID}@1.0.0",
            "artifactType": "agent-deployment",
            "title": f"Promote {AGENT_ID}@1.0.0",
            "requiredApprovals": 2,
            "actions": ["accept", "reject"],
            "rejectionPolicy": "single-veto",
        },
        "timeoutMs": 60_000,
        "requestedAt": "2026-01-01T00:00:00.000000Z",
    }


def test_states_that_need_no_approval_are_reached_without(desk):
    waiting = Waiting(desk)
    assert [desk.types(run_id)[-1] for run_id in desk.runs()[1:]] == ["run.completed"] * 2
    assert waiting.types[-1] == "interrupt.requested"


def test_approval_makes_the_promotion_and_ends_the_run(desk):
    waiting = Waiting(desk)
    assert waiting.vote(ANN) == "completed"
    assert waiting.types[3:] == [
        "authorization.decided",
        "approval.granted",
        "interrupt.resolved",
        "deployment.promoted",
        "run.completed",
    ]
    events = dict(desk.events(waiting.run_id))
    gate_id = waiting.record.approval_gate_id
    assert waiting.record.state == "active"
    assert events["deployment.promoted"]["approvalGateId"] == gate_id
    assert events["approval.granted"] == {
        "gateId": gate_id,
        "principal": "key:ann",
        "quorumProgress": {"granted": 1, "required": 1},
    }
    assert events["interrupt.resolved"]["resolvedBy"] == "key:ann"


def test_as_many_keys_must_agree_as_the_quorum_says(desk):
    waiting = Waiting(desk, quorum=2)
    assert waiting.vote(ANN) == "waiting-approval"
    with pytest.raises(AlreadyVoted):
        waiting.vote(ANN)
    assert waiting.record.state == "staged"
    assert waiting.vote(BEN) == "completed"


def test_votes_and_waiting_outlive_a_restart(desk):
    waiting = Waiting(desk, quorum=2)
    waiting.vote(ANN)
    waiting.deployments = desk.deployments(approval=ApprovalSettings(quorum=1))
    with pytest.raises(AlreadyVoted):  # and the quorum is that of the time of the request
        waiting.vote(ANN)
    assert waiting.vote(BEN) == "completed"


def test_who_asks_cannot_approve_and_the_attempt_is_on_record(desk):
    waiting = Waiting(desk)
    with pytest.raises(NotAllowed, match="another key"):
        waiting.vote(a_key("ops"))
    kind, decided = desk.events(waiting.run_id)[-1]
    assert (kind, decided["allowed"], decided["principal"]) == (
        "authorization.decided",
        False,
        "key:ops",
    )
    assert waiting.record.state == "staged"


def test_who_asks_can_take_it_back(desk):
    waiting = Waiting(desk)
    assert waiting.vote(a_key("ops"), REJECT) == "failed"


def test_a_key_without_the_scope_cannot_vote(desk):
    waiting = Waiting(desk)
    for ballot in (accept(), REJECT):
        with pytest.raises(NotAllowed, match="approvals:respond"):
            waiting.vote(OWNER, ballot)
    assert waiting.vote(ANN) == "completed"


def test_one_rejection_ends_it_and_the_record_is_as_before(desk):
    waiting = Waiting(desk, quorum=3)
    waiting.vote(ANN)
    assert waiting.vote(BEN, REJECT) == "failed"
    events = dict(desk.events(waiting.run_id))
    assert events["approval.rejected"]["reason"] == "not on a Friday"
    assert events["run.failed"]["error"]["code"] == "approval_rejected"
    assert (waiting.record.state, waiting.record.approval_gate_id) == ("staged", None)


def test_a_rejected_promotion_can_be_asked_for_again(desk):
    waiting = Waiting(desk)
    waiting.vote(ANN, REJECT)
    again = asyncio.run(ask(waiting.deployments))
    assert again.status == "waiting-approval"
    assert asyncio.run(waiting.deployments.vote(ANN, again.run_id, "approval", accept()))


def test_a_second_request_for_the_same_version_is_told_of_the_first(desk):
    waiting = Waiting(desk)
    with pytest.raises(ApprovalPending) as refused:
        asyncio.run(ask(waiting.deployments))
    assert refused.value.details == {"runId": waiting.run_id}


def test_a_decided_promotion_takes_no_further_vote(desk):
    waiting = Waiting(desk)
    waiting.vote(ANN)
    with pytest.raises(GateClosed):
        waiting.vote(BEN)
    assert waiting.types[-1] == "run.completed"


@pytest.mark.parametrize(
    "key",
    [a_key("spy", tenant="globex"), a_key("lab", workspace="lab")],
    ids=["another tenant", "another workspace"],
)
def test_to_others_there_is_nothing_that_waits(desk, key):
    waiting = Waiting(desk)
    with pytest.raises(NoSuchGate) as theirs:
        waiting.vote(key)
    with pytest.raises(NoSuchGate) as nobodys:
        asyncio.run(waiting.deployments.vote(key, "run_nowhere", "approval", accept()))
    assert theirs.value.message == nobodys.value.message
    assert waiting.types[-1] == "interrupt.requested"


def test_another_node_of_the_run_waits_for_nothing(desk):
    with pytest.raises(NoSuchGate):
        Waiting(desk).vote(ANN, node="other")


def test_many_votes_at_once_make_one_promotion(desk):
    waiting = Waiting(desk, quorum=2)

    async def main():
        keys = [a_key(f"key{number}") for number in range(8)]
        votes = (
            waiting.deployments.vote(key, waiting.run_id, "approval", accept()) for key in keys
        )
        return await asyncio.gather(*votes, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert outcomes.count("completed") == 1
    assert [type(outcome) for outcome in outcomes].count(GateClosed) == 6
    assert waiting.types.count("deployment.promoted") == 1


@pytest.mark.parametrize("ballots", [(accept(), REJECT), (REJECT, accept())])
def test_of_an_approval_and_a_rejection_at_once_one_decides(desk, ballots):
    waiting = Waiting(desk)

    async def main():
        votes = zip((ANN, BEN), ballots, strict=True)
        return await asyncio.gather(
            *(
                waiting.deployments.vote(key, waiting.run_id, "approval", each)
                for key, each in votes
            ),
            return_exceptions=True,
        )

    outcomes = asyncio.run(main())
    assert sum(isinstance(each, GateClosed | Conflict) for each in outcomes) == 1
    is_promoted = "completed" in outcomes
    assert waiting.types.count("interrupt.resolved") == 1
    assert waiting.types[-1] == ("run.completed" if is_promoted else "run.failed")
    assert ("deployment.promoted" in waiting.types) == is_promoted
    assert waiting.record.state == ("active" if is_promoted else "staged")


def test_of_two_hosts_that_count_the_last_vote_one_makes_the_promotion(desk):
    waiting = Waiting(desk)
    once = iter([1])

    def other_host_counts():
        for _ in once:
            key = waiting.run_id
            body = desk.log.records.get("gate", "acme", key)
            changed = msgspec.json.encode(msgspec.json.decode(body) | {"grantedBy": ["key:cy"]})
            desk.log.records.write([RecordChange("gate", "acme", key, changed)]).result(120)

    deployments = desk.deployments(other_host_counts, approval=ApprovalSettings())
    with pytest.raises(Conflict):
        asyncio.run(deployments.vote(ANN, waiting.run_id, "approval", accept()))
    assert waiting.types[-1] == "interrupt.requested"
    assert waiting.record.state == "staged"


# In time.


def test_what_nobody_answers_in_time_is_rejected_by_the_sweep(desk):
    waiting = Waiting(desk, timeout_s=60)
    sweep = waiting.deployments.sweep
    assert asyncio.run(sweep(desk.clock.at_us + 59_999_999)) == 0
    assert asyncio.run(sweep(desk.clock.at_us + 60_000_000)) == 1
    assert waiting.types[3:] == ["approval.rejected", "interrupt.resolved", "run.failed"]
    events = dict(desk.events(waiting.run_id))
    assert events["approval.rejected"]["reason"] == "timeout"
    assert events["interrupt.resolved"]["resumeValue"] == {"action": "timeout"}
    assert asyncio.run(sweep(desk.clock.at_us + 60_000_000)) == 0


def test_a_vote_that_comes_too_late_counts_for_nothing(desk):
    waiting = Waiting(desk, timeout_s=60)
    desk.clock.advance(60)
    with pytest.raises(GateClosed):
        waiting.vote(ANN)
    assert waiting.record.state == "staged"


def test_whoever_looks_sees_that_time_is_up(desk):
    waiting = Waiting(desk, timeout_s=60)
    assert waiting.record.approval_gate_id is not None
    desk.clock.advance(61)
    assert waiting.record.approval_gate_id is None


# Overrides.


def test_an_override_needs_a_policy_that_knows_it(desk):
    with pytest.raises(IllegalTransition, match="cannot be overridden"):
        Waiting(desk).vote(ANN, Ballot("override", "we must"))


def test_an_override_that_bypasses_the_quorum_decides_alone_and_says_why(desk):
    waiting = Waiting(
        desk, quorum=3, override_scope="workspace:write", override_bypasses_quorum=True
    )
    with pytest.raises(IllegalTransition, match="needs a reason"):
        waiting.vote(OWNER, Ballot("override"))
    with pytest.raises(NotAllowed, match="workspace:write"):
        waiting.vote(ANN, Ballot("override", "we must"))
    assert waiting.vote(OWNER, Ballot("override", "we must")) == "completed"
    overridden = dict(desk.events(waiting.run_id))["approval.overridden"]
    assert (overridden["principal"], overridden["reason"]) == ("key:owner", "we must")


def test_an_override_that_does_not_bypass_the_quorum_is_one_vote(desk):
    waiting = Waiting(desk, quorum=2, override_scope="workspace:write")
    assert waiting.vote(OWNER, Ballot("override", "we must")) == "waiting-approval"
    assert "approval.overridden" not in waiting.types
    assert waiting.vote(ANN) == "completed"


def test_who_asks_cannot_override_either(desk):
    waiting = Waiting(desk, override_scope="deploy:promote", override_bypasses_quorum=True)
    with pytest.raises(NotAllowed, match="another key"):
        waiting.vote(a_key("ops"), Ballot("override", "we must"))


# What else must hold.


def test_people_are_not_asked_about_a_version_without_evidence(desk):
    deployments = desk.deployments(require_eval=True, approval=ApprovalSettings())
    for _ in range(2):
        asyncio.run(ask(deployments))
    with pytest.raises(EvalGateUnmet):
        asyncio.run(ask(deployments))
    assert "interrupt.requested" not in desk.types(desk.runs()[0])


def test_evidence_is_looked_at_again_once_everybody_agreed(desk):
    run_id = asyncio.run(desk.eval_run())
    lenient = desk.deployments(require_eval=True, approval=ApprovalSettings())
    for _ in range(2):
        asyncio.run(ask(lenient))
    asked = asyncio.run(ask(lenient, eval_run_id=run_id))
    strict = desk.deployments(
        require_eval=True, required_pass_score=1.0, approval=ApprovalSettings()
    )
    assert asyncio.run(strict.vote(ANN, asked.run_id, "approval", accept())) == "completed"

    half = asyncio.run(desk.eval_run("2.0.0", answer=_half_right(), concurrency=1))
    lenient = desk.deployments(
        require_eval=True, required_pass_score=0.5, approval=ApprovalSettings()
    )
    for _ in range(2):
        asyncio.run(ask(lenient, version="2.0.0"))
    asked = asyncio.run(ask(lenient, version="2.0.0", eval_run_id=half))
    assert asyncio.run(strict.vote(ANN, asked.run_id, "approval", accept())) == "failed"
    kinds = desk.types(asked.run_id)
    assert "deployment.promoted" not in kinds
    assert dict(desk.events(asked.run_id))["run.failed"]["error"]["code"] == "eval_gate_unmet"


def _half_right():
    answers = iter(["yes", "no"])
    return lambda _: next(answers)


def test_a_promotion_that_fits_no_more_when_it_is_approved_fails(desk):
    asyncio.run(activate(desk.deployments(), "2.0.0"))
    deployments = desk.deployments(approval=ApprovalSettings())
    for _ in range(2):
        asyncio.run(ask(deployments))
    asked = asyncio.run(ask(deployments, canary_percent=5))
    asyncio.run(ask(deployments, "pause", "2.0.0"))
    assert asyncio.run(deployments.vote(ANN, asked.run_id, "approval", accept())) == "failed"
    assert dict(desk.events(asked.run_id))["run.failed"]["error"]["code"] == "validation_error"


def test_a_gate_before_the_first_state_leaves_a_draft(desk):
    deployments = desk.deployments(required_for=("test",), approval=ApprovalSettings())
    asked = asyncio.run(ask(deployments))
    assert asked.record.state == "draft"
    assert asyncio.run(deployments.vote(ANN, asked.run_id, "approval", accept())) == "completed"
    (record,) = asyncio.run(deployments.list("acme", AGENT_ID))
    assert record.state == "test"


def test_a_promotion_that_waits_can_be_cancelled_by_those_whose_it_is(desk):
    waiting = Waiting(desk)
    stranger = a_key("spy", tenant="globex")
    assert not asyncio.run(waiting.deployments.cancel(stranger, waiting.run_id))
    assert asyncio.run(waiting.deployments.cancel(ANN, waiting.run_id, "no longer wanted"))
    assert waiting.types[3:] == ["interrupt.resolved", "run.cancelled"]
    assert not asyncio.run(waiting.deployments.cancel(ANN, waiting.run_id))


def test_a_key_without_the_scope_cannot_cancel_a_promotion_that_waits(desk):
    waiting = Waiting(desk)
    ordinary = a_key("ordinary", "runs:cancel", "runs:read")
    with pytest.raises(NotAllowed):
        asyncio.run(waiting.deployments.cancel(ordinary, waiting.run_id))
    assert "run.cancelled" not in waiting.types


def test_a_run_that_was_ended_by_other_means_waits_no_longer(desk):
    waiting = Waiting(desk)
    log = desk.log.for_tenant("acme")
    assert RunHandle(log, "acme", waiting.run_id).open_status() == "waiting-approval"
    log.append(waiting.run_id, [NewEvent("run.cancelled", None, desk.clock.at_us, b"{}")])
    log.flush(waiting.run_id).result(120)
    with pytest.raises(GateClosed):
        waiting.vote(ANN)
    assert waiting.record.approval_gate_id is None
    assert asyncio.run(ask(waiting.deployments)).status == "waiting-approval"


def test_a_run_waits_for_approval_until_it_is_decided(desk):
    waiting = Waiting(desk, quorum=2)
    log = desk.log.for_tenant("acme")
    waiting.vote(ANN)
    assert RunHandle(log, "acme", waiting.run_id).open_status() == "waiting-approval"
    waiting.vote(BEN)
    assert RunHandle(log, "acme", waiting.run_id).open_status() == "running"


def test_a_rollback_waits_for_nobody(desk):
    asyncio.run(activate(desk.deployments()))
    asyncio.run(activate(desk.deployments(), "2.0.0"))
    strict = desk.deployments(require_eval=True, approval=ApprovalSettings())
    assert asyncio.run(ask(strict, "rollback", "2.0.0")).status == "completed"
