"""The library of prompts, worst first, and a page for each file."""

import asyncio
from typing import Any, ClassVar
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.host.http.errors import ApiError
from evalwright.host.library.prompts import PromptEvaluation
from evalwright.host.web.filters import Filters
from evalwright.host.web.page import PageCall, page, part, see
from evalwright.host.web.run_figures import spark_html
from evalwright.prompts.results import percent
from evalwright.reports.formats.html import as_markup
from evalwright.reports.formats.words import VERDICTS, toned
from evalwright.reports.prompts.groups import FileStatus
from evalwright.reports.prompts.html import render_file

AT_ONCE = 50
_TREND = 20
_WORST: tuple[FileStatus, ...] = ("error", "failed", "skipped", "passed")
_VERDICTS = {status: toned(VERDICTS[status]) for status in _WORST}


class PromptsAsked(Filters, frozen=True):
    """What the address asks for."""

    PATH = "/prompts"
    CHOICES: ClassVar = {"status": _VERDICTS}

    text: str = ""
    status: str = ""
    page: str = ""


async def show(call: PageCall) -> Response:
    """The list, or only its table when the filters change."""
    asked = PromptsAsked.of(call)
    values = await call.in_reader(lambda: _listed(call, asked))
    if call.is_part:
        return part(call, "prompts_table.html", **values)
    statuses = [(name, VERDICTS[name].words.lower()) for name in _WORST]
    return page(call, "prompts.html", title="Prompts", statuses=statuses, **values)


def _listed(call: PageCall, asked: PromptsAsked) -> dict[str, Any]:
    files = list(call.host.prompts.files(call.principal.partition))
    text = asked.text.lower()
    found = [
        each for each in files if text in each.path.lower() and asked.status in ("", each.status)
    ]
    found.sort(key=lambda each: (_WORST.index(each.status), each.score or 0.0, each.path))
    shown, around = asked.page_of(found, AT_ONCE)
    return {
        "asked": asked.values(),
        "rows": [
            {
                "path": each.path,
                "address": file_address(each.path),
                "verdict": _VERDICTS[each.status],
                "score": None if each.score is None else percent(each.score),
                "grade": each.grade,
                "judges": ", ".join(each.judges),
                "findings": each.findings,
                "at_us": each.at_us,
            }
            for each in shown
        ],
        "total": len(files),
        "found": len(found),
        "passed": sum(each.status == "passed" for each in files),
        **around,
    }


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
    shown = await call.parse(lambda: render_file(found.file, found.text))
    scores = {name: _score(each) for name, each in known}
    trend = [score for name, _ in known[:_TREND] if (score := scores[name]) is not None]
    return page(
        call,
        "prompt.html",
        title=path,
        path=path,
        removal=f"/prompts/remove?{urlencode({'path': path})}",
        verdict=_VERDICTS[found.file.status],
        at_us=found.at_us,
        is_latest=key == known[0][0],
        latest=file_address(path),
        has_text=found.text is not None,
        spark=as_markup(spark_html([score / 100 for score in reversed(trend)])),
        details=as_markup(shown),
        history=[
            {
                "address": file_address(path, _name(name)),
                "at_us": each.at_us,
                "verdict": _VERDICTS[each.file.status],
                "score": None if (score := scores[name]) is None else percent(score),
                "judges": ", ".join(group.judge for group in each.file.groups),
                "tier": each.results[0].execution.tier,
                "is_shown": name == key,
            }
            for name, each in known
        ],
    )


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
