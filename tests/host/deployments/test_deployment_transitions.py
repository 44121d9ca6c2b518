"""The state machine of deployments, by example and by a walk through what can be asked of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.deployments.events import (
    DeploymentCanaryAdjusted,
    DeploymentPromoted,
    DeploymentRolledBack,
    DeploymentStateChanged,
)
from evalwright.host.deployments.model import (
    SCOPES,
    STATES,
    Deployment,
    IllegalTransition,
    NoActiveDeployment,
    TransitionRequest,
    public_records,
)
from evalwright.host.deployments.transitions import resolve, transition
from evalwright.host.http.settings import DeploymentSettings

AGENT_ID = "vendor.acme.clerk"
POLICY = DeploymentSettings(channels=("stable", "canary"))
LEGAL = {
    ("draft", "test"),
    ("test", "staged"),
    ("staged", "active"),
    ("active", "paused"),
    ("paused", "active"),
    ("active", "deprecated"),
    ("active", "rolled-back"),
}


class Agent:
    """The versions of an agent, changed one request after the other."""

    def __init__(self):
        self.records: list[Deployment] = []
        self.events = []

    def ask(self, transition_, version, proof=(None, None), **fields):
        eval_run_id, gate_id = proof
        request = TransitionRequest(version=version, transition=transition_, **fields)
        decision = transition(
            AGENT_ID, self.records, request, POLICY, eval_run_id=eval_run_id, gate_id=gate_id
        )
        after = {record.version: record for record in (*self.records, *decision.changed)}
        self.records = list(after.values())
        self.events = decision.events
        return decision.record

    def active(self, version, channel="stable", **fields):
        """Bring a version all the way to a channel."""
        self.ask("promote", version)
        self.ask("promote", version)
        return self.ask("promote", version, channel=channel, **fields)

    def __getitem__(self, version):
        return next(record for record in self.records if record.version == version)

    def serves(self, channel="stable", draw=0.99):
        return resolve(self.records, channel, draw)


@pytest.fixture
def agent():
    return Agent()


# Promotion.


def test_a_version_starts_at_draft_and_goes_one_state_at_a_time_to_active(agent):
    states = [agent.ask("promote", "1.0.0").state for _ in range(3)]
    assert states == ["test", "staged", "active"]


def test_a_version_can_be_entered_as_a_draft(agent):
    assert agent.ask("promote", "1.0.0", to_state="draft").state == "draft"
    with pytest.raises(IllegalTransition, match="the next state is test"):
        agent.ask("promote", "1.0.0", to_state="draft")


@pytest.mark.parametrize("target", ["staged", "active", "paused", "deprecated", "rolled-back"])
def test_a_promotion_skips_no_state(agent, target):
    with pytest.raises(IllegalTransition, match="the next state is test"):
        agent.ask("promote", "1.0.0", to_state=target)


def test_a_promotion_to_active_binds_the_version_to_stable_unless_a_channel_is_named(agent):
    assert agent.active("1.0.0", channel=None).channels == ("stable",)
    assert agent.active("2.0.0", channel="canary").channels == ("canary",)


def test_a_host_without_a_stable_channel_binds_to_its_first():
    staged = Deployment(agent_id=AGENT_ID, version="1.0.0", state="staged")
    request = TransitionRequest(version="1.0.0", transition="promote")
    decision = transition(AGENT_ID, [staged], request, DeploymentSettings(channels=("prod", "dev")))
    assert decision.record.channels == ("prod",)


@pytest.mark.parametrize(
    ("channel", "words"), [("beta", "stable, canary"), ("latest", "highest active")]
)
def test_a_channel_that_the_host_does_not_have_is_refused(agent, channel, words):
    with pytest.raises(IllegalTransition, match=words):
        agent.active("1.0.0", channel=channel)


def test_the_next_version_takes_the_channel_and_the_former_stays_active_without_it(agent):
    agent.active("1.0.0")
    agent.active("2.0.0")
    assert agent.events[0].from_version == "1.0.0"
    assert (agent["1.0.0"].state, agent["1.0.0"].channels) == ("active", ())
    assert agent.serves() == "2.0.0"


def test_an_active_version_can_take_a_further_channel(agent):
    agent.active("1.0.0")
    agent.ask("promote", "1.0.0", channel="canary")
    assert agent["1.0.0"].channels == ("stable", "canary")
    with pytest.raises(IllegalTransition, match="already"):
        agent.ask("promote", "1.0.0", channel="canary")


def test_the_record_and_the_event_of_a_promotion_say_what_it_rests_on(agent):
    record = agent.ask("promote", "1.0.0", ("run_eval", "gate_1"))
    assert (record.eval_run_id, record.approval_gate_id) == ("run_eval", "gate_1")
    assert agent.events == [
        DeploymentPromoted(
            agent_id=AGENT_ID,
            to_version="1.0.0",
            to_state="test",
            eval_run_id="run_eval",
            approval_gate_id="gate_1",
        )
    ]


@pytest.mark.parametrize(
    ("transition_", "field"),
    [
        ("pause", {"channel": "stable"}),
        ("pause", {"to_state": "paused"}),
        ("deprecate", {"canary_percent": 5}),
        ("rollback", {"eval_run_id": "run_1"}),
        ("rollback", {"canary_percent": 5}),
        ("adjust-canary", {"to_state": "active", "canary_percent": 5}),
    ],
)
def test_a_field_that_does_not_belong_to_the_transition_is_refused(agent, transition_, field):
    agent.active("1.0.0")
    with pytest.raises(IllegalTransition, match="does not apply"):
        agent.ask(transition_, "1.0.0", **field)


@pytest.mark.parametrize("field", [{"channel": "stable"}, {"canary_percent": 5}])
def test_channel_and_share_are_for_promotions_to_active(agent, field):
    with pytest.raises(IllegalTransition, match="not to test"):
        agent.ask("promote", "1.0.0", **field)


# Canaries.


def test_a_canary_takes_its_share_and_leaves_the_rest_to_the_version_before(agent):
    agent.active("1.0.0")
    agent.active("2.0.0", canary_percent=20)
    assert [agent.serves(draw=draw) for draw in (0.0, 0.199, 0.2, 0.99)] == [
        "2.0.0",
        "2.0.0",
        "1.0.0",
        "1.0.0",
    ]


def test_a_canary_of_nothing_is_never_drawn(agent):
    agent.active("1.0.0")
    agent.active("2.0.0", canary_percent=0)
    assert agent.serves(draw=0.0) == "1.0.0"


def test_a_canary_needs_an_active_version_that_serves_the_rest(agent):
    with pytest.raises(IllegalTransition, match="nothing would serve"):
        agent.active("1.0.0", canary_percent=20)


def test_a_channel_has_one_canary_at_a_time(agent):
    agent.active("1.0.0")
    agent.active("2.0.0", canary_percent=20)
    with pytest.raises(IllegalTransition, match=r"2\.0\.0 is already the canary"):
        agent.active("3.0.0", canary_percent=10)


def test_a_canary_that_is_raised_to_all_takes_the_channel(agent):
    agent.active("1.0.0")
    agent.active("2.0.0", canary_percent=20)
    agent.ask("adjust-canary", "2.0.0", canary_percent=60)
    agent.ask("adjust-canary", "2.0.0", canary_percent=100)
    assert agent["2.0.0"].canary_percent is None
    assert agent["1.0.0"].channels == ()
    assert agent.events == [
        DeploymentCanaryAdjusted(
            agent_id=AGENT_ID, version="2.0.0", from_percent=60, to_percent=100
        )
    ]


def test_a_version_that_has_a_channel_can_share_it_with_the_one_before(agent):
    agent.active("1.0.0")
    agent.active("2.0.0")
    agent.ask("adjust-canary", "2.0.0", canary_percent=30)
    assert (agent.serves(draw=0.29), agent.serves(draw=0.31)) == ("2.0.0", "1.0.0")


def test_the_only_version_of_a_channel_cannot_share_it(agent):
    agent.active("1.0.0")
    with pytest.raises(IllegalTransition, match="nothing would serve"):
        agent.ask("adjust-canary", "1.0.0", canary_percent=30)


def test_the_version_that_serves_what_a_canary_leaves_is_not_withdrawn(agent):
    agent.active("1.0.0")
    agent.active("2.0.0", canary_percent=20)
    for withdrawal in ("pause", "deprecate"):
        with pytest.raises(IllegalTransition, match=r"canary 2\.0\.0"):
            agent.ask(withdrawal, "1.0.0")


def test_a_share_that_is_the_same_is_refused(agent):
    agent.active("1.0.0")
    with pytest.raises(IllegalTransition, match="already serves 100 percent"):
        agent.ask("adjust-canary", "1.0.0", canary_percent=100)


# Pause, resume, deprecate.


def test_a_paused_version_serves_nothing_and_comes_back_as_it_was(agent):
    agent.active("1.0.0")
    agent.ask("pause", "1.0.0")
    with pytest.raises(NoActiveDeployment, match="stable"):
        agent.serves()
    agent.ask("promote", "1.0.0")
    assert agent.serves() == "1.0.0"
    assert agent.events == [
        DeploymentStateChanged(
            agent_id=AGENT_ID, version="1.0.0", from_state="paused", to_state="active"
        )
    ]


def test_a_paused_version_comes_back_without_what_others_have_taken(agent):
    agent.active("1.0.0")
    agent.ask("pause", "1.0.0")
    agent.active("2.0.0")
    agent.ask("promote", "1.0.0")
    assert (agent["1.0.0"].state, agent["1.0.0"].channels) == ("active", ())
    assert agent.serves() == "2.0.0"


def test_a_paused_version_cannot_change_channels_while_it_comes_back(agent):
    agent.active("1.0.0")
    agent.ask("pause", "1.0.0")
    with pytest.raises(IllegalTransition, match="resumes with its channels"):
        agent.ask("promote", "1.0.0", channel="canary")


def test_a_deprecated_version_is_out_for_good(agent):
    agent.active("1.0.0")
    agent.ask("deprecate", "1.0.0")
    assert agent["1.0.0"].channels == ()
    for anything in SCOPES:
        with pytest.raises(IllegalTransition, match="deprecated"):
            agent.ask(anything, "1.0.0")


@pytest.mark.parametrize("transition_", ["pause", "deprecate", "rollback", "adjust-canary"])
def test_only_an_active_version_can_be_withdrawn_or_shared(agent, transition_):
    with pytest.raises(IllegalTransition, match="no deployment yet"):
        agent.ask(transition_, "1.0.0")
    agent.ask("promote", "1.0.0")
    with pytest.raises(IllegalTransition, match="is test"):
        agent.ask(transition_, "1.0.0")


# Rollback.


def test_a_rollback_restores_the_version_that_served_before(agent):
    agent.active("1.0.0")
    agent.active("2.0.0")
    agent.ask("rollback", "2.0.0", reason="too slow")
    assert (agent["2.0.0"].state, agent["2.0.0"].rollback_pointer) == ("rolled-back", "1.0.0")
    assert agent.serves() == "1.0.0"
    assert agent.events == [
        DeploymentRolledBack(
            agent_id=AGENT_ID,
            from_version="2.0.0",
            to_version="1.0.0",
            rollback_pointer="1.0.0",
            reason="too slow",
        )
    ]


def test_rollbacks_go_back_in_the_order_in_which_versions_served_not_by_their_numbers(agent):
    agent.active("3.0.0")
    agent.active("1.0.0")
    agent.active("2.0.0")
    agent.ask("rollback", "2.0.0")
    assert agent.serves() == "1.0.0"
    agent.ask("rollback", "1.0.0")
    assert agent.serves() == "3.0.0"


def test_a_rollback_of_a_version_that_came_back_leads_to_the_one_it_took_over_from(agent):
    agent.active("1.0.0")
    agent.active("2.0.0")
    agent.ask("promote", "1.0.0", channel="stable")
    agent.ask("rollback", "1.0.0")
    assert agent.serves() == "2.0.0"
    with pytest.raises(IllegalTransition, match="no version that can still serve"):
        agent.ask("rollback", "2.0.0")


def test_a_rollback_brings_a_paused_version_back_and_says_so(agent):
    agent.active("1.0.0")
    agent.ask("pause", "1.0.0")
    agent.active("2.0.0")
    agent.ask("rollback", "2.0.0")
    assert agent.serves() == "1.0.0"
    assert [event.TYPE for event in agent.events] == [
        "deployment.rolled-back",
        "deployment.state.changed",
    ]


def test_a_rollback_skips_versions_that_can_serve_no_more(agent):
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        agent.active(version)
    agent.ask("deprecate", "2.0.0")
    agent.ask("rollback", "3.0.0")
    assert agent["3.0.0"].rollback_pointer == "1.0.0"


def test_a_rollback_hands_over_every_channel(agent):
    agent.active("1.0.0")
    agent.active("2.0.0")
    agent.ask("promote", "2.0.0", channel="canary")
    agent.ask("rollback", "2.0.0")
    assert agent["1.0.0"].channels == ("stable", "canary")


def test_a_canary_that_is_rolled_back_leaves_all_to_the_version_beside_it(agent):
    agent.active("1.0.0")
    agent.active("2.0.0", canary_percent=50)
    agent.ask("rollback", "2.0.0")
    assert agent["2.0.0"].rollback_pointer == "1.0.0"
    assert agent.serves(draw=0.0) == "1.0.0"


def test_the_first_version_of_a_channel_cannot_be_rolled_back(agent):
    agent.active("1.0.0")
    with pytest.raises(IllegalTransition, match="no version that can still serve"):
        agent.ask("rollback", "1.0.0")


def test_a_version_without_a_channel_has_nothing_to_roll_back(agent):
    agent.active("1.0.0")
    agent.active("2.0.0")
    with pytest.raises(IllegalTransition, match="on no channel"):
        agent.ask("rollback", "1.0.0")


# Latest, and what is told.


def test_latest_is_the_highest_active_version_whatever_its_channel(agent):
    agent.active("1.10.0")
    agent.active("1.9.0", channel="canary")
    assert agent.serves("latest") == "1.10.0"
    told = {record.version: record.channels for record in public_records(agent.records)}
    assert told == {"1.9.0": ("canary",), "1.10.0": ("stable", "latest")}


def test_records_are_told_lowest_version_first_and_without_what_is_kept_for_ourselves(agent):
    for version in ("2.0.0", "10.0.0", "2.0.0-rc.1"):
        agent.ask("promote", version)
    agent.active("1.0.0")
    told = [msgspec.to_builtins(record) for record in public_records(agent.records)]
    assert [record["version"] for record in told] == ["1.0.0", "2.0.0-rc.1", "2.0.0", "10.0.0"]
    assert told[0] == {
        "agentId": AGENT_ID,
        "version": "1.0.0",
        "state": "active",
        "channels": ("stable", "latest"),
    }


# Whatever is asked.

VERSIONS = st.sampled_from(("1.0.0", "1.1.0", "2.0.0-rc.1", "2.0.0"))
CHANNELS = st.none() | st.sampled_from(POLICY.channels)
SHARES = st.sampled_from((0, 1, 50, 99, 100))
PROMOTIONS = st.fixed_dictionaries(
    {"transition_": st.just("promote"), "version": VERSIONS},
    optional={"to_state": st.sampled_from(STATES), "channel": CHANNELS, "canary_percent": SHARES},
)
OTHERS = st.fixed_dictionaries(
    {"transition_": st.sampled_from(("pause", "deprecate", "rollback")), "version": VERSIONS}
)
ADJUSTMENTS = st.fixed_dictionaries(
    {
        "transition_": st.just("adjust-canary"),
        "version": VERSIONS,
        "canary_percent": SHARES,
        "channel": CHANNELS,
    }
)
REQUESTS = st.lists(PROMOTIONS | OTHERS | ADJUSTMENTS, max_size=60)


def walked(requests):
    """Every step that was not refused: the records before and after, and what was told."""
    agent = Agent()
    for request in requests:
        before = list(agent.records)
        try:
            agent.ask(**request)
        except IllegalTransition:
            assert agent.records == before
        else:
            yield before, agent.records, agent.events


def told_states(events):
    """The states that the events say versions are in by now."""
    states = {}
    for event in events:
        match event:
            case DeploymentPromoted():
                states[event.to_version] = event.to_state
            case DeploymentStateChanged():
                states[event.version] = event.to_state
            case DeploymentRolledBack():
                states[event.from_version] = "rolled-back"
    return states


def told_shares(events):
    """The shares that the events say canaries have by now."""
    promoted = [event for event in events if isinstance(event, DeploymentPromoted)]
    adjusted = [event for event in events if isinstance(event, DeploymentCanaryAdjusted)]
    return {event.to_version: event.canary_percent for event in promoted} | {
        event.version: event.to_percent for event in adjusted
    }


def differing(before, after, field):
    """The values of a field, by version, where they are not what they were."""
    known = {record.version: getattr(record, field) for record in before}
    return {
        record.version: getattr(record, field)
        for record in after
        if known.get(record.version) != getattr(record, field)
    }


@given(REQUESTS)
def test_no_version_ever_makes_a_step_that_the_machine_does_not_have(requests):
    for before, after, _ in walked(requests):
        states = {record.version: record.state for record in before}
        for record in after:
            step = (states.get(record.version, "draft"), record.state)
            assert step[0] == step[1] or step in LEGAL


@given(REQUESTS)
def test_a_channel_that_serves_has_exactly_one_full_version_and_at_most_one_canary(requests):
    for _, after, _ in walked(requests):
        for channel in POLICY.channels:
            active = [
                record
                for record in after
                if record.state == "active" and channel in record.channels
            ]
            full = [record for record in active if record.canary_percent is None]
            assert len(full) == (1 if active else 0)
            assert len(active) <= 2
        for record in after:
            assert record.state in ("active", "paused") or not record.channels
            assert (record.rollback_pointer is not None) == (record.state == "rolled-back")
            assert record.canary_percent is None or len(record.channels) == 1


@given(REQUESTS)
def test_the_events_say_every_state_and_every_share_that_changed(requests):
    for before, after, events in walked(requests):
        states, shares = told_states(events), told_shares(events)
        assert differing(before, after, "state").items() <= states.items()
        for version, share in differing(before, after, "canary_percent").items():
            if share is not None:
                assert shares[version] == share


@given(REQUESTS, st.floats(0, 1, exclude_max=True))
def test_a_channel_resolves_to_an_active_version_that_is_on_it_or_to_none(requests, draw):
    for _, after, _ in walked(requests):
        for channel in POLICY.channels:
            serving = {
                record.version
                for record in after
                if record.state == "active" and channel in record.channels
            }
            try:
                assert resolve(after, channel, draw) in serving
            except NoActiveDeployment:
                assert not serving
