"""Agents and deployments in the browser: versions, states, gates, evidence, what blocks."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import AGENT_ID, a_suite
from host.caller import Caller
from host.server import WRONG, ServedHost, running_host
from host.web.visitor import Answer, Visitor, signed_in

PAGE = f"/agents/{AGENT_ID}"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[ServedHost]:
    """A host whose promotions to active need an evaluation and the approval of one other key."""
    settings = {"deployments": {"approval": {"quorum": 1}}}
    with running_host(tmp_path / "strict.db", settings=settings) as served:
        yield served


@pytest.fixture
def easy(tmp_path: Path) -> Iterator[ServedHost]:
    """A host whose promotions need nothing."""
    settings = {"deployments": {"require_eval": False}}
    with running_host(tmp_path / "easy.db", settings=settings) as served:
        yield served


def promote(visitor: Visitor, page: str = PAGE, **fields: str) -> Answer:
    visitor.get(page)
    return visitor.post(page, {"version": "1.0.0", **fields})


def in_channel(page: str, channel: str, agent: str = AGENT_ID) -> str:
    """The version of an agent in a channel of its lane."""
    lane = page[page.index(f'data-agent="{agent}"') :]
    place = lane[lane.index(f'data-channel="{channel}"') :]
    found = re.search(r'class="version">([^<]+)<|class="muted">(none)<', place)
    assert found is not None
    return found[1] or found[2]


def test_a_lane_promotes_from_channel_to_channel_and_says_what_holds_a_version(
    visitor: Visitor, newcomer: Caller
):
    lanes = visitor.get("/agents").text
    assert in_channel(lanes, "test") == "none"
    promote(visitor)
    assert in_channel(visitor.get("/agents").text, "test") == "1.0.0"
    promote(visitor)
    lanes = visitor.get("/agents").text
    assert [in_channel(lanes, each) for each in ("test", "staging")] == ["none", "1.0.0"]
    held = re.search(
        r'<button[^>]*aria-disabled="true" aria-describedby="([^"]+)">.*?id="\1">([^<]+)<', lanes
    )
    assert held is not None
    assert held[2] == "no evaluation of this version yet"
    run_id = newcomer.evaluate(a_suite(2))
    lanes = visitor.get("/agents").text
    assert (
        "no evaluation of this version yet"
        not in lanes[lanes.index(f'data-agent="{AGENT_ID}"') :][:4000]
    )
    assert f'name="evidence" value="{run_id}"' in lanes, "the run that it rests on"
    assert promote(visitor, evidence=run_id).status == 303
    assert in_channel(visitor.get("/agents").text, "production") == "1.0.0"

    for _ in range(2):
        promote(visitor, f"/agents/{WRONG}")
    newcomer.evaluate(a_suite(2), WRONG)
    assert "0 of 2 passed" in visitor.get("/agents").text


def test_agents_are_listed_with_what_serves(visitor: Visitor):
    page = visitor.get("/agents").text
    assert f'href="{PAGE}"' in page
    assert "1.0.0" in page
    part = visitor.get(f"/agents?q={WRONG}", HX_Request="true").text
    assert part.startswith('<section id="agents"')
    assert "1 agent<" in part
    assert "No agent fits" in visitor.get("/agents?q=nothing&page=x").text
    assert visitor.get("/agents/unknown").status == 404


def test_a_version_is_promoted_step_by_step_with_its_evidence(visitor: Visitor, newcomer: Caller):
    assert "not deployed" in visitor.get(PAGE).text
    assert [promote(visitor).status for _ in range(2)] == [303, 303]
    assert "● staged" in visitor.get(PAGE).text

    blocked = promote(visitor)
    assert blocked.status == 403
    assert "Blocked: the version has no completed evaluation" in blocked.text
    assert "the request has no evalRunId" in blocked.text
    assert "● staged" in blocked.text, "it stays where it is"

    run_id = newcomer.evaluate(a_suite(2))
    page = visitor.get(PAGE).text
    assert f'<option value="{run_id}">' in page, "what ran is offered as evidence"
    assert promote(visitor, evidence=run_id, channel="stable").status == 303
    page = visitor.get(PAGE).text
    assert "✓ active" in page
    assert "stable, latest" in page
    assert f'href="/runs/{run_id}"' in page
    assert in_channel(visitor.get("/agents").text, "production") == "1.0.0"

    assert promote(visitor, transition="pause").status == 303
    assert "‖ paused" in visitor.get(PAGE).text


def test_an_evaluation_that_failed_blocks_with_its_reasons(visitor: Visitor, newcomer: Caller):
    page = f"/agents/{WRONG}"
    for _ in range(2):
        promote(visitor, page)
    failed = newcomer.evaluate(a_suite(2), WRONG)
    blocked = promote(visitor, page, evidence=failed, reason="it is urgent")
    assert blocked.status == 403
    assert "0 of 2 tasks passed, and every task must pass" in blocked.text
    assert 'value="it is urgent"' in blocked.text, "what was typed is not lost"


def test_what_does_not_fit_is_said_on_the_page(visitor: Visitor):
    assert "<script>" not in promote(visitor, version="<script>").text
    for wrong in ({"share": "200"}, {"transition": "explode"}, {"version": ""}, {"channel": "x"}):
        answer = promote(visitor, **wrong)
        assert answer.status == 400, wrong
        assert "<strong>Blocked" in answer.text


@pytest.mark.parametrize("share", ["nan", "ten", "10 %", "12.5", "1e17"])
def test_a_share_that_is_no_number_promotes_nothing(visitor: Visitor, share: str):
    before = visitor.get(PAGE).text.count("not deployed")
    assert before
    assert promote(visitor, share=share).status == 400
    assert visitor.get(PAGE).text.count("not deployed") == before


def test_what_does_not_fit_is_said_in_plain_words_at_its_field(visitor: Visitor):
    share = "Give a whole number from 0 to 100."
    for wrong, words in (
        ({"share": "ten"}, share),
        ({"share": "101"}, share),
        ({"version": ""}, "Choose one of the versions."),
        ({"channel": "x" * 65}, "Choose one of the channels."),
        ({"reason": "x" * 513}, "At most 512 characters."),
    ):
        (name,) = wrong
        text = promote(visitor, **wrong).text
        assert re.search(
            f'<p id="{name}-error" class="field-error"><svg.*?</svg>{re.escape(words)}</p>', text
        ), wrong
        assert f'aria-invalid="true" aria-describedby="{name}-error"' in text, wrong
        assert "Blocked: see the field below" in text, wrong
        assert "Expected" not in text, wrong
    assert "no version can be changed in this way" in promote(visitor, transition="explode").text


def test_a_promotion_waits_until_another_key_approves(strict: ServedHost):
    caller = strict.caller("acme")
    assert caller.key
    asking = signed_in(strict.url, caller.key)
    other = signed_in(strict.url, strict.key("acme"))
    for _ in range(2):
        promote(asking)
    assert promote(asking, evidence=caller.evaluate(a_suite(1))).status == 303
    page = asking.get(PAGE).text
    assert "waits until another key approves" in page
    assert "Waiting for approval" in page
    assert "Approve version" not in page, "nobody approves their own"
    assert "1.0.0 waits for approval" in asking.get("/agents").text
    assert "waits for others" in asking.get("/agents").text
    lanes = other.get("/agents").text
    assert "waits for you" in lanes
    assert "0 of 1 approved" in lanes
    assert "Approve version 1.0.0" in lanes

    page = other.get(PAGE).text
    assert "Approve version 1.0.0" in page
    run_id = page.partition('name="run" value="')[2].partition('"')[0]
    asking.get(PAGE)
    own = asking.post(f"{PAGE}/vote", {"run": run_id, "action": "accept"})
    assert own.status == 403
    assert "cannot approve it" in own.text
    assert other.post(f"{PAGE}/vote", {"run": run_id, "action": "accept"}).status == 303
    page = other.get(PAGE).text
    assert "✓ active" in page
    assert "Waiting for approval" not in page


def test_who_may_only_read_is_offered_nothing(with_scopes: Callable[..., Visitor]):
    reader = with_scopes("onlookers", "agents:read", "runs:read")
    page = reader.get(PAGE)
    assert page.status == 200
    assert f'method="post" action="{PAGE}' not in page.text
    assert reader.post(PAGE, {"version": "1.0.0"}).status == 403
    pausing = with_scopes("onlookers", "deploy:pause", "agents:read")
    pausing.get(PAGE)
    assert pausing.post(PAGE, {"version": "1.0.0"}).status == 403, "promotions need their scope"


def test_the_share_of_a_canary_is_raised_until_it_has_all_of_its_channel(easy: ServedHost):
    caller, page = easy.caller("acme"), "/agents/local.shop.clerk"
    assert caller.key
    visitor = signed_in(easy.url, caller.key)
    manifest = {
        "agentId": "local.shop.clerk",
        "persona": "Clerk",
        "modelClass": "general",
        "systemPrompt": "You are a clerk.",
    }
    for version in ("1.0.0", "2.0.0"):
        body = {"version": version, "manifest": manifest}
        assert caller.post("/v1/agents", body).status == 201
        fields = [{}, {}, {"share": "10"} if version == "2.0.0" else {}]
        for each in fields:
            assert promote(visitor, page, version=version, **each).status == 303
        if version == "1.0.0":
            assert "Set share" not in visitor.get(page).text, "nothing would serve the rest"
    text = visitor.get(page).text
    assert "10% of the traffic" in text
    assert "90% of the traffic" in text, "the other has the rest"
    assert 'aria-label="Share of version 2.0.0, in percent"' in text
    assert "Share of version 1.0.0" not in text, "it follows from that of the canary"

    wrong = promote(visitor, page, version="2.0.0", transition="adjust-canary", share="ten")
    assert wrong.status == 400
    assert wrong.text.count("Give a whole number from 0 to 100.") == 1, "at its own field"
    assert 'value="ten" aria-label="Share of version 2.0.0, in percent" aria-invalid' in wrong.text
    same = promote(visitor, page, version="2.0.0", transition="adjust-canary", share="10")
    assert "already serves 10 percent" in same.text

    raised = promote(visitor, page, version="2.0.0", transition="adjust-canary", share="50")
    assert raised.status == 303
    assert "50% of the traffic" in visitor.get(page).text
    assert promote(visitor, page, version="2.0.0", transition="adjust-canary", share="100").location
    assert "of the traffic</small>" not in visitor.get(page).text
