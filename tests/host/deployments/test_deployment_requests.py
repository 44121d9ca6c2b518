"""Transitions as the host makes them: authorized, on record, all or nothing."""

import asyncio
import random
import string
import threading

import pytest
from deploying import AGENT_ID, a_key, activate, ask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalwright.host.deployments.model import (
    SCOPES,
    Conflict,
    IllegalTransition,
    NoActiveDeployment,
    NoSuchAgent,
    NotAllowed,
)
from evalwright.store.records import RecordChange


def test_a_transition_is_a_run_that_says_who_asked_what_changed_and_what_came_of_it(desk):
    done = asyncio.run(ask(desk.deployments()))
    started, decided, promoted, completed = desk.events(done.run_id)
    assert started == (
        "run.started",
        {
            "workflowId": "evalwright.deployment",
            "inputs": {"agentId": AGENT_ID, "version": "1.0.0", "transition": "promote"},
            "transport": "rest",
            "engineVersion": started[1]["engineVersion"],
            "owner": {"tenant": "acme", "principal": "key:ops"},
        },
    )
    assert decided == (
        "authorization.decided",
        {
            "principal": "key:ops",
            "action": "deploy:promote",
            "resource": f"{AGENT_ID}@1.0.0",
            "allowed": True,
        },
    )
    assert promoted == (
        "deployment.promoted",
        {"agentId": AGENT_ID, "toVersion": "1.0.0", "toState": "test"},
    )
    assert completed == (
        "run.completed",
        {"outputs": {"record": {"agentId": AGENT_ID, "version": "1.0.0", "state": "test"}}},
    )


def test_what_was_changed_is_there_after_a_restart(desk):
    asyncio.run(activate(desk.deployments()))
    (record,) = asyncio.run(desk.deployments().list("acme", AGENT_ID))
    assert (record.state, record.channels) == ("active", ("stable", "latest"))
    assert desk.deployments().resolve("acme", AGENT_ID, "stable", 0.5) == "1.0.0"


@pytest.mark.parametrize(("transition", "scope"), SCOPES.items())
def test_each_transition_needs_its_scope_and_a_refusal_is_on_record(desk, transition, scope):
    others = {*SCOPES.values(), "runs:create", "approvals:respond"} - {scope}
    with pytest.raises(NotAllowed, match=scope) as refused:
        asyncio.run(ask(desk.deployments(), transition, key=a_key("other", *others)))
    run_id = refused.value.details["runId"]
    _, (_, decided), (ended, failure) = desk.events(run_id)
    assert (decided["allowed"], decided["action"]) == (False, scope)
    assert (ended, failure["error"]["code"]) == ("run.failed", "forbidden")


def test_a_key_that_may_not_deploy_learns_nothing_about_agents(desk):
    told = []
    for agent_id in (AGENT_ID, "vendor.acme.nobody"):
        with pytest.raises(NotAllowed) as refused:
            asyncio.run(ask(desk.deployments(), key=a_key("other", "runs:read"), agent_id=agent_id))
        told.append(refused.value.message)
    assert told[0] == told[1]


def test_an_agent_of_another_tenant_is_not_there(desk):
    asyncio.run(activate(desk.deployments()))
    stranger = a_key("stranger", tenant="globex")
    with pytest.raises(NoSuchAgent):
        asyncio.run(ask(desk.deployments(), "pause", key=stranger))
    with pytest.raises(NoSuchAgent):
        asyncio.run(desk.deployments().list("globex", AGENT_ID))
    with pytest.raises(NoActiveDeployment):
        desk.deployments().resolve("globex", AGENT_ID, "stable", 0.5)
    assert desk.runs("globex") == []


def test_two_tenants_deploy_the_same_agent_apart(desk):
    desk.agents.installed["globex", AGENT_ID] = {"1.0.0"}
    asyncio.run(activate(desk.deployments()))
    asyncio.run(ask(desk.deployments(), key=a_key(tenant="globex")))
    (record,) = asyncio.run(desk.deployments().list("globex", AGENT_ID))
    assert record.state == "test"


def test_a_version_that_is_not_installed_cannot_be_promoted(desk):
    with pytest.raises(IllegalTransition, match="not installed"):
        asyncio.run(ask(desk.deployments(), version="9.9.9"))


def test_an_agent_without_deployments_has_an_empty_list(desk):
    assert asyncio.run(desk.deployments().list("acme", AGENT_ID)) == []


def test_a_request_that_does_not_fit_leaves_no_run_and_no_record(desk):
    with pytest.raises(IllegalTransition):
        asyncio.run(ask(desk.deployments(), to_state="active"))
    assert desk.runs() == []
    assert asyncio.run(desk.deployments().list("acme", AGENT_ID)) == []


def test_an_agent_id_of_any_length_is_no_burden(desk):
    with pytest.raises(NoSuchAgent):
        asyncio.run(ask(desk.deployments(), agent_id="a" * 10_000, key=a_key("x", "runs:read")))
    assert desk.runs() == []


def test_a_secret_in_a_reason_is_masked_before_it_is_kept(desk):
    secret = "ghp_" + "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=36))
    deployments = desk.deployments()
    asyncio.run(activate(deployments))
    asyncio.run(activate(deployments, "2.0.0"))
    done = asyncio.run(ask(deployments, "rollback", "2.0.0", reason=f"leaked {secret}"))
    assert secret not in str(desk.events(done.run_id))
    assert desk.types(done.run_id)[2] == "deployment.rolled-back"


# At the same time.


def test_of_many_who_want_to_be_the_canary_one_becomes_it(desk):
    async def main():
        deployments = desk.deployments()
        await activate(deployments)
        for version in ("2.0.0", "3.0.0"):
            await ask(deployments, version=version)
            await ask(deployments, version=version)
        asked = (
            ask(deployments, version=version, canary_percent=10) for version in ("2.0.0", "3.0.0")
        )
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert [type(outcome) for outcome in outcomes].count(IllegalTransition) == 1
    records = asyncio.run(desk.deployments().list("acme", AGENT_ID))
    assert [record.canary_percent for record in records].count(10) == 1


def test_who_becomes_the_canary_is_decided_between_two_hosts_as_well(desk):
    asyncio.run(activate(desk.deployments()))
    for version in ("2.0.0", "2.0.0", "3.0.0", "3.0.0"):
        asyncio.run(ask(desk.deployments(), version=version))
    others = iter([lambda: asyncio.run(ask(desk.deployments(), version="3.0.0", canary_percent=5))])

    def act():
        for other in others:
            in_another_thread(other)

    with pytest.raises(IllegalTransition, match=r"3\.0\.0 is already the canary"):
        asyncio.run(ask(desk.deployments(act), version="2.0.0", canary_percent=10))


def test_a_change_that_never_comes_through_is_given_up_with_nothing_written(desk):
    asyncio.run(ask(desk.deployments()))
    records, key = desk.log.records, f"{AGENT_ID}@1.0.0"

    def act():
        body = records.get("deployment", "acme", key)
        records.write([RecordChange("deployment", "acme", key, body + b" ")]).result(120)

    with pytest.raises(Conflict, match="try again"):
        asyncio.run(ask(desk.deployments(act)))
    assert len(desk.runs()) == 1
    (record,) = asyncio.run(desk.deployments().list("acme", AGENT_ID))
    assert record.state == "test"


def in_another_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


@settings(
    max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    st.lists(
        st.tuples(st.sampled_from(list(SCOPES)), st.sampled_from(("1.0.0", "2.0.0"))), max_size=12
    )
)
def test_whatever_is_asked_the_log_of_every_run_has_an_end_and_only_known_types(desk, asked):
    async def main():
        deployments = desk.deployments()
        for transition, version in asked:
            try:
                await ask(deployments, transition, version)
            except IllegalTransition:
                continue

    asyncio.run(main())
    for run_id in desk.runs():
        kinds = desk.types(run_id)
        assert kinds[:2] == ["run.started", "authorization.decided"]
        assert kinds[-1] == "run.completed"
        assert all(kind.startswith("deployment.") for kind in kinds[2:-1])
