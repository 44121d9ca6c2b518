"""A task of a run: its result, and what happened as a conversation, some steps at a time."""

from base64 import b64decode
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.attachments import Attached
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.suite import Task
from evalwright.engine.task_names import cut
from evalwright.host.http.errors import ApiError
from evalwright.host.web.page import (
    PageCall,
    page,
    part,
    review_address,
    run_address,
    suite_address,
    task_address,
)
from evalwright.host.web.pages.run_tasks import damaged_details, read_details
from evalwright.host.web.pages.runs import run_title
from evalwright.host.web.run_views import RunView, views_of
from evalwright.reports.design.talk import TalkStep
from evalwright.reports.run.conversation import step_address
from evalwright.reports.run.timeline import TaskTimeline

AT_ONCE = 60  # steps
MOST_SPANS = 40  # of the waterfall
LEAST_OUTLINED = 40  # steps, from which on a conversation has an outline
OF_A_GROUP = 30  # steps, unless somebody speaks before
MOST_GROUPS = 40
MAP = 400  # height of the map of all steps
WAIT = {"pass": "Passed", "fail": "Failed", "error": "No answer", "open": "No score yet"}


async def show(call: PageCall) -> Response:
    """The page, or only a part of its steps."""
    views, task_id = views_of(call.host), call.path["taskId"]
    if call.asked("beside"):
        whole = await views.of(call.run)
        around = await call.in_reader(lambda: _around(whole, whole.task(task_id).task_id))
        return part(call, "task_around.html", around=around)
    is_patient = bool(call.asked("wait"))
    view = await (views.of(call.run) if is_patient else views.for_task(call.run, task_id))
    task = await call.in_reader(partial(view.task, task_id))
    told = await call.in_reader(partial(_details, view, task))
    steps = _part(call, told["steps"], told["address"])
    if call.is_part:
        return part(call, "task_steps.html", **steps)
    timeline = await views.timeline(view, task)
    run_id, address = view.run.run_id, told["address"]
    return page(
        call,
        "task.html",
        title=f"{told['title']} · {run_title(view.facts)}",
        task=told,
        places=[
            ("Runs", "/runs"),
            (suite_name(view.frame.suite.suite_id), suite_address(view.frame.suite.suite_id)),
            (run_title(view.facts), run_address(run_id)),
        ],
        verdict=_verdict(told),
        facts=list(_facts(view, told, timeline)),
        outline=_outline(told, steps["steps"]),
        spans=_spans(timeline, told, steps["steps"]),
        around=_around(view, task.task_id) if view.is_whole else None,
        here_around=f"{address}?beside=1",
        review=review_address(run_id, told["task_id"]) if call.may("runs:annotate") else "",
        test=f"{review_address(run_id, told['task_id'])}/test.yaml",
        **steps,
    )


def _details(view: RunView, task: Task) -> dict[str, Any]:
    try:
        return read_details(view, task)
    except msgspec.MsgspecError:
        return damaged_details(view, task)


def _verdict(told: dict[str, Any]) -> dict[str, str]:
    kind = {"pass": "pass", "fail": "fail", "error": "unsure", "open": "open"}[told["kind"]]
    failed = [each for each in told["checks"] if each["kind"] == "fail"]
    why = told["error"] or "; ".join(each["why"] or each["name"] for each in failed[:2])
    return {
        "kind": kind,
        "heading": f"{WAIT[told['kind']]}: {told['title']}",
        "why": f"{why[:1].upper()}{why[1:]}",
    }


def _facts(view: RunView, told: dict[str, Any], timeline: TaskTimeline) -> Sequence[str]:
    facts = [view.frame.agent.name]
    row = (
        view.tasks.rows[view.tasks.places[told["key"]]]
        if told.get("key") in view.tasks.places
        else None
    )
    if row is not None and row.score is not None:
        facts.append(f"score {amounts.score(row.score)}")
    if told["check_score"]:
        facts.append(told["check_score"])
    if timeline.took_us:
        facts.append(amounts.span(timeline.took_us / 1000))
    if timeline.input_tokens or timeline.output_tokens:
        facts.append(f"{timeline.input_tokens:,} tokens in, {timeline.output_tokens:,} out")
        cost = timeline.cost_usd
        facts.append("cost unknown" if cost is None else amounts.dollars(cost))
    if told["repeats_words"]:
        facts.append(told["repeats_words"])
    return facts


def _spans(
    timeline: TaskTimeline, told: dict[str, Any], here: Sequence[TalkStep]
) -> list[dict[str, Any]]:
    """The requests of models and the calls of tools, those that took longest, in their order."""
    timed = [step for step in timeline.steps if step.kind in ("model", "call")]
    longest = sorted(timed, key=lambda step: -step.took_us)[:MOST_SPANS]
    numbers = [int(step.id[1:]) for step in told["steps"] if step.id[1:].isdecimal()]
    on_page = {step.id for step in here}

    def address(sequence: int) -> str:
        """That of the step, or of the one in which it ended: models are asked for an answer."""
        if not numbers:
            return str(told["address"])
        number = numbers[min(bisect_left(numbers, sequence), len(numbers) - 1)]
        return f"#s{number}" if f"s{number}" in on_page else step_address(told["address"], number)

    return [
        {
            "address": address(step.sequence),
            "kind": step.kind,
            "name": _masked_name(step.name),
            "bad": step.is_bad,
            "start": min(0.995, timeline.offset(step)),
            "width": max(0.005, min(timeline.share(step), 1 - timeline.offset(step))),
            "time": amounts.span(step.took_us / 1000),
            "words": (
                f"from {amounts.span((step.at_us - timeline.started_us) / 1000)}, "
                f"{amounts.span(step.took_us / 1000)}"
            ),
        }
        for step in sorted(longest, key=lambda step: step.at_us)
    ]


def _outline(told: dict[str, Any], here: Sequence[TalkStep]) -> dict[str, Any] | None:
    """The groups of a long conversation, what each is about, and a map of all its steps."""
    steps: Sequence[TalkStep] = told["steps"]
    if len(steps) < LEAST_OUTLINED:
        return None
    size = max(OF_A_GROUP, -(-len(steps) // MOST_GROUPS))
    on_page = {step.id for step in here}

    def address(step: TalkStep) -> str:
        if step.id in on_page or not step.id[1:].isdecimal():
            return f"#{step.id}" if step.id in on_page else str(told["address"])
        return step_address(told["address"], int(step.id[1:]))

    groups: list[list[TalkStep]] = []
    for step in steps:
        if not groups or len(groups[-1]) >= size or (step.kind == "user" and len(steps) < 600):
            groups.append([])
        groups[-1].append(step)
    line, first, listed = MAP / len(steps), 1, []
    for group in groups:
        last = first + len(group) - 1
        listed.append(
            {
                "title": _about(group),
                "place": f"{first:,}\N{EN DASH}{last:,}" if last > first else f"{first:,}",
                "failed": any(step.bad for step in group),
                "address": address(group[0]),
            }
        )
        first = last + 1
    bad = [step for step in steps if step.bad]
    every = -(-len(steps) // MAP)
    return {
        "steps": len(steps),
        "groups": listed,
        "first_failure": address(bad[0]) if bad else "",
        "words": f"Map of {len(steps):,} steps, {len(bad):,} with a failure",
        "map": [
            (
                "f" if step.bad else "o" if step.kind in ("call", "note") else "m",
                f"{place * line:.1f}",
                22 if step.bad else 9 if step.kind in ("call", "note") else 15,
                f"{max(1.0, line * 0.8):.1f}",
            )
            for place, step in enumerate(steps)
            if step.bad or place % every == 0
        ],
    }


def _about(group: Sequence[TalkStep]) -> str:
    """What somebody says first in a part of a conversation, else what is called most."""
    if group[0].kind in ("user", "agent"):
        return cut(str(group[0].text)) or group[0].by
    called = Counter(step.name for step in group if step.kind == "call").most_common(2)
    names = (f"{_masked_name(name)} \N{MULTIPLICATION SIGN}{count}" for name, count in called)
    return ", ".join(names) or group[0].name or "notes"


@lru_cache(maxsize=1024)
def _masked_name(name: str) -> str:
    """A name as it may be shown: agents choose those of tools, and can put a secret into one."""
    from evalwright.signals.masking import mask_text  # with every detector of secrets

    return mask_text(name, personal=False)


def _part(call: PageCall, steps: Sequence[TalkStep], address: str) -> dict[str, Any]:
    """Some of the steps, and where the others are."""
    first = int(call.asked("from")) if call.asked("from").isdecimal() else 0
    wanted = f"s{call.asked('step')}"
    places = (place for place, each in enumerate(steps) if each.id == wanted)
    if (place := next(places, None)) is not None:
        first = place // AT_ONCE * AT_ONCE
        steps[place].is_open = True
    rest = max(0, len(steps) - first - AT_ONCE)
    return {
        "steps": steps[first : first + AT_ONCE],
        "rest": rest,
        "more": f"{address}?{urlencode({'from': first + AT_ONCE})}",
        "earlier": f"{address}?{urlencode({'from': max(0, first - AT_ONCE)})}" if first else "",
    }


def _around(view: RunView, task_id: str) -> dict[str, Any]:
    """The tasks beside this one, by the keys that lead to them."""
    found = view.tasks.around(task_id)
    if found is None:
        raise ApiError(404, "not_found", "the run has no such task")
    known = (
        ("k", "Previous task", "up", found.previous),
        ("j", "Next task", "down", found.next),
        ("f", "Next failure", "flag", found.next_failure),
    )
    run_id = view.run.run_id
    links = [
        (key, words, icon, task_address(run_id, view.names.name_of(name)))
        for key, words, icon, name in known
        if name
    ]
    return {"place": found.place, "of": len(view.tasks.rows), "links": links}


async def findings(call: PageCall) -> Response:
    """The findings of a task with the steps that show them."""
    views = views_of(call.host)
    view = await views.for_task(call.run, call.path["taskId"])
    task = await call.in_reader(partial(view.task, call.path["taskId"]))
    told = await call.in_reader(partial(_details, view, task))
    steps = [each for each in told["steps"] if each.findings]
    return part(call, "task_findings.html", task=told, steps=steps)


async def payload(call: PageCall) -> Response:
    """One step with all that was sent and came back."""
    views = views_of(call.host)
    view = await views.for_task(call.run, call.path["taskId"])
    task = await call.in_reader(partial(view.task, call.path["taskId"]))
    told = await call.in_reader(partial(read_details, view, task, whole=True))
    wanted = f"s{call.path['step']}"
    step = next((each for each in told["steps"] if each.id == wanted), None)
    if step is None:
        raise ApiError(404, "not_found", "the trace has no such step")
    return part(call, "task_payload.html", step=step)


async def attachment(call: PageCall) -> Response:
    """An image, a sound or a file that came with the task; only the first two are shown."""
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    raw = view.frame.suite.attachments.get(call.path["digest"])
    if raw is None:
        raise ApiError(404, "not_found", "the task has no such file")
    found = msgspec.json.decode(raw, type=Attached)
    is_shown = found.type.startswith(("image/", "audio/"))
    headers = {} if is_shown else {"Content-Disposition": "attachment"}
    kind = found.type if is_shown else "application/octet-stream"
    return Response(b64decode(found.data), headers=headers, media_type=kind)
