"""The library of prompts, worst first, and a page for each file."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.host.http.errors import ApiError
from evalwright.host.library.prompts import PromptEvaluation, PromptSummary
from evalwright.host.web.filters import Filters
from evalwright.host.web.page import PageCall, page, part, see
from evalwright.host.web.run_figures import spark
from evalwright.prompts.results import percent
from evalwright.reports.design.markup import as_markup
from evalwright.reports.formats.words import VERDICTS
from evalwright.reports.prompts.groups import File, FileStatus
from evalwright.reports.prompts.html import render_one

AT_ONCE = 50
_TREND = 20
_WORST: tuple[FileStatus, ...] = ("error", "failed", "skipped", "passed")
KINDS = {"error": "error", "failed": "fail", "skipped": "open", "passed": "pass"}


class PromptsAsked(Filters, frozen=True):
    """What the address asks for."""

    PATH = "/prompts"
    CHOICES: ClassVar = {"status": KINDS}

    text: str = ""
    status: str = ""
    page: str = ""


async def show(call: PageCall) -> Response:
    """The list, or only its table when the filters change."""
    asked = PromptsAsked.of(call)
    values = await call.in_reader(lambda: _listed(call, asked))
    if call.is_part:
        return part(call, "prompts_table.html", **values)
    return page(call, "prompts.html", title="Prompts", **values)


def _listed(call: PageCall, asked: PromptsAsked) -> dict[str, Any]:
    files = list(call.host.prompts.files(call.principal.partition))
    text = asked.text.lower()
    files.sort(key=lambda each: (_WORST.index(each.status), each.score or 0.0, each.path))
    found = [
        each for each in files if text in each.path.lower() and asked.status in ("", each.status)
    ]
    shown, around = asked.page_of(found, AT_ONCE)
    return {
        "asked": asked.values(),
        "verdict": _verdict(files),
        "chips": [
            {
                "key": status or "all",
                "words": VERDICTS[status].words if status else "All",
                "count": sum(status in ("", each.status) for each in files),
                "shape": KINDS[status] if status else "",
                "icon": "",
                "address": asked.address(status=status, page=""),
                "chosen": status == asked.status,
            }
            for status in ("", *_WORST)
        ],
        "rows": [_row(each) for each in shown],
        "total": len(files),
        "found": len(found),
        **around,
    }


def _verdict(files: Sequence[PromptSummary]) -> dict[str, str]:
    """How many prompts are good enough, in one sentence; they come worst first."""
    bad = [each for each in files if each.status in ("failed", "error")]
    noun = "prompt" if len(files) == 1 else "prompts"
    if not bad:
        heading = f"{len(files):,} {noun}, all may ship"
        return {"kind": "pass", "heading": heading, "why": "Each passed when last evaluated."}
    worst = ", ".join(each.path for each in bad[:3])
    passed = sum(each.status == "passed" for each in files)
    heading = f"{len(bad):,} of {len(files):,} {noun} may not ship"
    return {"kind": "fail", "heading": heading, "why": f"{worst}. {passed:,} passed."}


def _row(file: PromptSummary) -> dict[str, Any]:
    rate = None
    if file.score is not None:
        shown = percent(file.score)
        rate = {
            "figure": shown,
            "share": file.score / 100 if file.score > 1 else file.score,
            "low": None,
            "high": None,
            "bar": None,
            "tone": "pass" if file.status == "passed" else "fail",
            "words": f"score {shown}",
        }
    return {
        "path": file.path,
        "title": file.path.rpartition("/")[2],
        "address": file_address(file.path),
        "kind": KINDS[file.status],
        "word": VERDICTS[file.status].words,
        "tone": {"failed": "fail", "error": "fail", "skipped": "warn"}.get(file.status, ""),
        "failed": file.status in ("failed", "error"),
        "rate": rate,
        "grade": file.grade,
        "judges": ", ".join(file.judges),
        "findings": file.findings,
        "at_us": file.at_us,
    }


def _told(status: FileStatus) -> dict[str, str]:
    """What became of a file, as a verdict and as a result."""
    headings = {"pass": "May ship", "fail": "Do not ship", "error": "Could not be evaluated"}
    shape, word = KINDS[status], VERDICTS[status].words
    kind = {"pass": "pass", "fail": "fail", "error": "unsure"}.get(shape, "none")
    return {"kind": kind, "heading": headings.get(shape, word), "shape": shape, "word": word}


def file_address(path: str, evaluation: str = "") -> str:
    """The address of a file, or of an earlier evaluation of it."""
    asked = {"path": path} | ({"at": evaluation} if evaluation else {})
    return f"/prompts/file?{urlencode(asked)}"


async def file(call: PageCall) -> Response:
    """One file: its latest evaluation or the one that the address names, and its history."""
    path, at = _named(call), call.asked("at")
    known = await call.in_reader(
        lambda: call.host.prompts.evaluations(call.principal.partition, path)
    )
    chosen = next(((key, found) for key, found in known if not at or _name(key) == at), None)
    if chosen is None:
        raise ApiError(404, "not_found", "no such prompt; it may have been removed")
    key, found = chosen
    judged, text = await call.parse(lambda: render_one(found.file, found.text))
    scores = {name: _score(each) for name, each in known}
    trend = [score for name, _ in known[:_TREND] if (score := scores[name]) is not None]
    return page(
        call,
        "prompt.html",
        title=path,
        path=path,
        removal=f"/prompts/remove?{urlencode({'path': path})}",
        name=path.rpartition("/")[2],
        verdict=_told(found.file.status),
        at_us=found.at_us,
        is_latest=key == known[0][0],
        latest=file_address(path),
        has_text=found.text is not None,
        spark=spark([score / 100 for score in reversed(trend)]),
        why=_why(found.file),
        judged=as_markup(judged),
        text=as_markup(text),
        history=[
            {
                "address": file_address(path, _name(name)),
                "at_us": each.at_us,
                "verdict": _told(each.file.status),
                "score": None if (score := scores[name]) is None else percent(score),
                "judges": ", ".join(group.judge for group in each.file.groups),
                "tier": each.results[0].execution.tier,
                "is_shown": name == key,
            }
            for name, each in known
        ],
    )


def _why(file: File) -> str:
    """Each score with its grade and the bar."""
    told = [
        f"{percent(each.score)}, {each.grade}, by {each.judge}; bar {each.threshold:g}%"
        for each in file.groups
        if each.score is not None
    ]
    return f"{'. '.join(told)}." if told else ""


def _named(call: PageCall) -> str:
    """The path in the address, as it is: a file may be called ` `."""
    return call.request.query_params.get("path", "")


def _name(key: str) -> str:
    return key.partition("/")[2]


def _score(evaluation: PromptEvaluation) -> float | None:
    return min(
        (each.score for each in evaluation.file.groups if each.score is not None), default=None
    )


async def remove(call: PageCall) -> Response:
    """Forget a prompt, which may have been renamed or deleted."""
    path = call.field("path") or _named(call)
    await asyncio.to_thread(call.host.prompts.remove, call.principal.partition, path)
    return see("/prompts")
