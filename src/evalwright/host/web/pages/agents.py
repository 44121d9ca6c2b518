"""Agents and their deployments: versions, states, gates; promotions with their evidence."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.engine.runs import read_agent
from evalwright.host.deployments.approvals import ApprovalGate, Ballot
from evalwright.host.deployments.events import APPROVAL_NODE
from evalwright.host.deployments.model import (
    FULL,
    LATEST,
    SCOPES,
    AgentDeployment,
    DeploymentRefusal,
    IllegalTransition,
    State,
    Transition,
    TransitionRequest,
)
from evalwright.host.deployments.transitions import NEXT
from evalwright.host.http.settings import DeploymentSettings
from evalwright.host.library.catalogue import RegisteredAgent
from evalwright.host.library.versions import version_key
from evalwright.host.v1.deployments import transitioned
from evalwright.host.web.filters import Filters
from evalwright.host.web.page import PageCall, page, part, see
from evalwright.host.web.pages.runs import run_row
from evalwright.store.protocol import RunFilter

AT_ONCE = 25
MOST_RUNS = 20  # that are offered as evidence
READERS = ("agents:read", "deploy:promote", "deploy:pause", "deploy:rollback")
DEPLOYERS = ("deploy:promote", "deploy:pause", "deploy:rollback")
TONES = {
    "active": ("good", "✓ active"),
    "staged": ("info", "● staged"),
    "test": ("info", "● test"),
    "draft": ("plain", "○ draft"),
    "paused": ("warn", "‖ paused"),
    "deprecated": ("plain", "⊘ deprecated"),
    "rolled-back": ("bad", "↶ rolled back"),
}
# What is wrong with a part of a request: the field of the form that it came from, and words.
_WRONG = {
    "version": ("version", "Choose one of the versions."),
    "evalRunId": ("evidence", "Choose one of the runs."),
    "channel": ("channel", "Choose one of the channels."),
    "canaryPercent": ("share", "Give a whole number from 0 to 100."),
    "reason": ("reason", "At most 512 characters."),
}
_FIELDS = ("version", "evidence", "channel", "share", "reason", "transition")
_ACTIONS: dict[Transition, str] = {
    "pause": "Pause",
    "deprecate": "Deprecate",
    "rollback": "Roll back",
}
LANE: dict[State, str] = {"test": "test", "staged": "staging", "active": "production"}
_NOT_DEPLOYED = ("plain", "\N{EN DASH} not deployed")


class AgentsAsked(Filters, frozen=True):
    """The filters in an address."""

    PATH = "/agents"

    q: str = ""
    page: str = ""


def agent_address(agent_id: str) -> str:
    """The address of an agent."""
    return f"/agents/{quote(agent_id, safe='')}"


async def show(call: PageCall) -> Response:
    """The agents with what serves where, or only their lanes when the filter changes."""
    asked, tenant = AgentsAsked.of(call), call.principal.tenant
    agents = await call.in_reader(lambda: call.host.catalogue.agents(tenant))
    text = asked.q.lower()
    found = [each for each in agents if text in f"{each.agent_id} {each.label or ''}".lower()]
    shown, around = asked.page_of(found, AT_ONCE)
    deployments, lanes, waiting = call.host.deployments, [], list[dict[str, Any]]()
    for known in shown:
        records = await deployments.list(tenant, known.agent_id)
        gates = await deployments.waiting(call.principal, known.agent_id)
        evidence = await call.in_reader(partial(_latest_runs, call, known.agent_id))
        lanes.append(_lane(call, known, records, gates, evidence))
        for gate in gates:
            address, name = agent_address(known.agent_id), known.label or known.persona
            told = {"name": name, "address": address, "run": evidence.get(gate.request.version)}
            waiting.append(_waiting(call, gate) | told)
    values: dict[str, Any] = {
        "asked": asked.values(),
        "lanes": lanes,
        "waiting": waiting,
        "verdict": _verdict(lanes, waiting),
        "gates": _gates(call.host.settings.deployments),
        "total": len(found),
        "of": len(agents),
        **around,
    }
    if call.is_part:
        return part(call, "agents_table.html", **values)
    return page(call, "agents.html", title="Agents", **values)


def _latest_runs(call: PageCall, agent_id: str) -> dict[str, dict[str, Any]]:
    """Of each version the latest run that evaluated it, as lists show it."""
    if not call.may("runs:read"):
        return {}
    found: dict[str, dict[str, Any]] = {}
    wanted = RunFilter(agent=agent_id, status="completed", is_evaluation=True)
    for run in call.log.find_runs(wanted, MOST_RUNS):
        figures = call.host.figures.of(call.log, run)
        version = figures.version if figures else ""
        if not version and (by := read_agent(call.log, run.run_id)) is not None:
            version = by.version or ""
        if version not in found:
            found[version] = run_row(call, run, {})
    return found


def _lane(
    call: PageCall,
    known: RegisteredAgent,
    records: list[AgentDeployment],
    gates: Sequence[ApprovalGate],
    evidence: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """An agent: the newest version in each state on the way, and the gates between them."""
    newest = {each.state: each for each in records}  # lowest version first
    channels = []
    for state, name in LANE.items():
        record = newest.get(state) or (newest.get("paused") if state == "active" else None)
        serving = [each for each in records if each.state == "active"]
        run = evidence.get(record.version) if record else None
        told = []
        if record and record.channels:
            told.append(", ".join(record.channels))
        if record and record.canary_percent is not None:
            told.append(f"{record.canary_percent}% of the traffic")
        if record and record.state == "paused":
            told.append("paused")
        if state == "active" and len(serving) > 1:
            told.append(f"{len(serving) - 1} more serving")
        channels.append(
            {
                "name": name,
                "version": record.version if record else "",
                "run": run,
                "told": told,
            }
        )
    steps = []
    for target, channel in zip(list(LANE)[1:], channels, strict=False):
        gate = next((each for each in gates if each.request.version == channel["version"]), None)
        steps.append(_gate(call, target, channel, gate))
    is_new = known.version not in {each.version for each in records}
    return {
        "agent_id": known.agent_id,
        "address": agent_address(known.agent_id),
        "label": known.label or known.persona,
        "newest": known.version,
        "is_new": is_new,
        "model_class": known.model_class,
        "channels": channels,
        "steps": steps,
    }


def _gate(
    call: PageCall,
    target: str,
    channel: dict[str, Any],
    gate: ApprovalGate | None,
) -> dict[str, Any]:
    """What leads from a state to the next: a button, what it waits for, or why it is held."""
    policy, version, run = call.host.settings.deployments, channel["version"], channel["run"]
    told = {"version": version, "held": "", "words": "", "badge": "", "evidence": ""}
    if gate is not None:
        granted = f"{len(gate.granted_by)} of {gate.policy.quorum} approved"
        may_vote = _waiting(call, gate)["may_accept"]
        return told | {"badge": granted, "words": f"waits for {'you' if may_vote else 'others'}"}
    if not version:
        return told
    is_gated = target in policy.required_for
    if not call.may("deploy:promote"):
        return told | {"held": "your key may not promote"}
    if is_gated and policy.require_eval and run is None:
        return told | {"held": "no evaluation of this version yet"}
    if is_gated and policy.require_eval and run["kind"] != "pass":
        return told | {
            "held": f"{run['title'].lower()}: {run['passed']:,} of {run['tasks']:,} passed"
        }
    told["evidence"] = run["run_id"] if run and is_gated else ""
    if is_gated and policy.approval is not None:
        count = policy.approval.quorum
        return told | {"words": f"{count} {'approval' if count == 1 else 'approvals'} needed"}
    return told | {"words": "all bars met" if run and run["kind"] == "pass" else "needs nothing"}


def _verdict(lanes: Sequence[dict[str, Any]], waiting: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What waits or is held, over all agents of the page."""
    held = [
        f"{lane['label']} {step['version']}"
        for lane in lanes
        for step in lane["steps"]
        if step["held"]
    ]
    serving = [lane["channels"][-1] for lane in lanes if lane["channels"][-1]["version"]]
    bad = [each for each in serving if each["run"] and each["run"]["kind"] != "pass"]
    why = (
        f"{held[0]} is held."
        if len(held) == 1
        else f"{len(held)} versions are held."
        if held
        else ""
    )
    if serving and not bad:
        why = f"{why} What serves met every bar.".strip()
    if waiting:
        first = waiting[0]
        name = f"{first['name']} {first['version']}"
        heading = (
            f"{name} waits for approval"
            if len(waiting) == 1
            else f"{len(waiting)} wait for approval"
        )
        return {"kind": "open", "heading": heading, "why": why}
    if bad:
        return {"kind": "fail", "heading": "What serves did not meet its bars", "why": why}
    if serving:
        return {"kind": "pass", "heading": "Nothing waits for approval", "why": why}
    return {"kind": "none", "heading": "No version is deployed", "why": why}


async def agent(call: PageCall) -> Response:
    """An agent: its versions, and what can be done with them."""
    return await _agent_page(call)


async def _agent_page(
    call: PageCall,
    refusal: DeploymentRefusal | None = None,
    given: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    agent_id, tenant = call.path["agentId"], call.principal.tenant
    records = await call.host.deployments.list(tenant, agent_id)
    waiting = await call.host.deployments.waiting(call.principal, agent_id)
    may_read = call.may("runs:read")
    found = await call.in_reader(lambda: _read_agent(call, agent_id, records, may_read=may_read))
    policy, given, errors = call.host.settings.deployments, given or {}, errors or {}
    is_share = given.get("transition") == "adjust-canary"
    for row in found["rows"] if is_share else ():
        if row["version"] == given["version"]:
            row["given"], row["error"] = given["share"], errors.get("share", "")
    return page(
        call,
        "agent.html",
        title=agent_id,
        status_code=200 if refusal is None else refusal.status,
        agent_id=agent_id,
        address=agent_address(agent_id),
        gates=_gates(policy),
        channels=policy.channels,
        waiting=[_waiting(call, each) for each in waiting],
        refusal=refusal
        and {
            "message": refusal.message,
            "unmet": refusal.details.get("unmet", ()),
            "run_id": refusal.details.get("runId", ""),
        },
        given=dict.fromkeys(_FIELDS, "") | ({} if is_share else given),
        errors={} if is_share else errors,
        **found,
    )


def _read_agent(
    call: PageCall, agent_id: str, records: list[AgentDeployment], *, may_read: bool
) -> dict[str, Any]:
    tenant = call.principal.tenant
    known = call.host.catalogue.agent(tenant, agent_id)
    by_version = {each.version: each for each in records}
    versions = {*call.host.catalogue.versions(tenant, agent_id), *by_version}
    wanted = RunFilter(agent=agent_id, status="completed", is_evaluation=True)
    evidence = []
    for run in call.log.find_runs(wanted, MOST_RUNS) if may_read else ():
        verdict = call.host.figures.verdict(call.log, run)[1]
        score = "" if run.score is None else f", score {amounts.score(run.score)}"
        evidence.append({"run_id": run.run_id, "words": f"{run.suite}: {verdict}{score}"})
    return {
        "label": (known.label or known.persona) if known else "",
        "about": (known.description or "") if known else "",
        "model_class": known.model_class if known else "",
        "rows": [
            _version_row(version, by_version.get(version), records)
            for version in sorted(versions, key=version_key, reverse=True)
        ],
        "runs": evidence,
    }


def _version_row(
    version: str, record: AgentDeployment | None, records: list[AgentDeployment]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "version": version,
        "badge": _NOT_DEPLOYED,
        "channels": "",
        "share": None,  # of its channel; None for all of it
        "given": str(FULL),
        "error": "",
        "is_shareable": False,
        "eval_run": "",
        "back_to": "",
        "next": NEXT.get("draft"),
        "is_promotable": NEXT.get("draft") is not None,
        "actions": [],
    }
    if record is None:
        return row
    is_active, share = record.state == "active", record.canary_percent
    canary, following = _canary_with(record, records), NEXT.get(record.state)
    if canary is not None and canary.canary_percent is not None:
        row["share"] = FULL - canary.canary_percent
    else:
        row["share"] = share
    serving = sum(each.state == "active" for each in records)
    return row | {
        "badge": TONES[record.state],
        "channels": ", ".join(record.channels),
        "given": str(FULL if share is None else share),
        # Another version serves the rest of its only channel.
        "is_shareable": is_active
        and serving > 1
        and len(_own_channels(record)) == 1
        and canary is None,
        "eval_run": record.eval_run_id or "",
        "back_to": record.rollback_pointer or "",
        "next": "another channel" if is_active else following,
        "is_promotable": following is not None,
        "actions": [(name, words, SCOPES[name]) for name, words in _ACTIONS.items() if is_active],
    }


def _canary_with(record: AgentDeployment, records: list[AgentDeployment]) -> AgentDeployment | None:
    """The canary that shares a channel with a version that has the rest of it."""
    if record.state != "active" or record.canary_percent is not None:
        return None
    own = _own_channels(record)
    return next(
        (
            each
            for each in records
            if each.state == "active" and each.canary_percent is not None
            if not own.isdisjoint(_own_channels(each))
        ),
        None,
    )


def _own_channels(record: AgentDeployment) -> set[str]:
    return {name for name in record.channels if name != LATEST}


def _gates(policy: DeploymentSettings) -> list[str]:
    """What a promotion needs, in words."""
    states = " and ".join(policy.required_for)
    told = []
    if policy.require_eval and policy.required_for:
        least = policy.required_pass_score
        bar = "" if least is None else f" with a score of at least {least:g}"
        told.append(
            f"A promotion to {states} needs an evaluation of this version that passed{bar}."
        )
    if policy.approval is not None and policy.required_for:
        count = policy.approval.quorum
        others = "another key approves" if count == 1 else f"{count} other keys approve"
        told.append(f"A promotion to {states} waits until {others}.")
    return told or ["Promotions need neither an evaluation nor an approval."]


def _waiting(call: PageCall, gate: ApprovalGate) -> dict[str, Any]:
    is_own = gate.requester == call.principal.principal
    may_vote = call.may("approvals:respond") and call.may(gate.policy.scope)
    return {
        "run_id": gate.run_id,
        "version": gate.request.version,
        "by": gate.requester,
        "at_us": gate.asked_at_us,
        "granted": len(gate.granted_by),
        "quorum": gate.policy.quorum,
        "evidence": gate.request.eval_run_id or "",
        "may_accept": may_vote and not is_own,
        "may_reject": may_vote,
    }


async def change(call: PageCall) -> Response:
    """Promote a version, or take it back; what blocks that is said on the page."""
    given = {name: call.field(name) for name in _FIELDS}
    wanted = {
        "version": given["version"],
        "transition": given["transition"] or "promote",
        "channel": given["channel"] or None,
        # What is no number must be refused: without a share, the version gets all of the traffic.
        "canaryPercent": given["share"] or None,
        "evalRunId": given["evidence"] or None,
        "reason": given["reason"] or None,
    }
    agent_id = call.path["agentId"]
    try:
        request = msgspec.convert(wanted, TransitionRequest, strict=False)
        await transitioned(call, agent_id, request)
    except msgspec.ValidationError as error:
        name = str(error).rpartition("$.")[2].rstrip("`")
        errors = dict([_WRONG[name]]) if name in _WRONG else {}
        told = "see the field below" if errors else "no version can be changed in this way"
        return await _agent_page(call, IllegalTransition(told), given, errors)
    except DeploymentRefusal as refusal:
        return await _agent_page(call, refusal, given)
    return see(agent_address(agent_id))


async def vote(call: PageCall) -> Response:
    """Approve or reject a promotion that waits."""
    action = call.field("action")
    ballot = Ballot("accept" if action == "accept" else "reject", call.field("reason") or None)
    try:
        await call.host.deployments.vote(call.principal, call.field("run"), APPROVAL_NODE, ballot)
    except DeploymentRefusal as refusal:
        return await _agent_page(call, refusal)
    return see(agent_address(call.path["agentId"]))
