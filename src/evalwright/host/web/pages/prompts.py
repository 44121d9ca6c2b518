"""The library of prompts, worst first, and a page for each file."""

import asyncio
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.host.http.errors import ApiError
from evalwright.host.library.prompts import PromptEvaluation, PromptSummary
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


class PromptsAsked(NamedTuple):
    """What the address asks for."""

    text: str = ""
    status: str = ""
    number: int = 1  # of the page

    @classmethod
    def of(cls, call: PageCall) -> "PromptsAsked":
        """The filters in the address."""
        status, number = call.asked("status"), call.asked("page")
        return cls(
            call.asked("text"),
            status if status in _VERDICTS else "",
            int(number) if number.isascii() and number.isdigit() and len(number) < 7 else 1,
        )

    def address(self, number: int) -> str:
        """The address of another page of the same list."""
        asked = {"text": self.text, "status": self.status, "page": str(number)}
        return f"/prompts?{urlencode({name: value for name, value in asked.items() if value})}"

    def fits(self, file: PromptSummary) -> bool:
        """Whether a file is asked for."""
        is_named = self.text.lower() in file.path.lower()
        return is_named and self.status in ("", file.status)


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
    found = sorted(filter(asked.fits, files), key=_badness)
    pages = max(1, -(-len(found) // AT_ONCE))
    number = min(max(1, asked.number), pages)
    shown = found[(number - 1) * AT_ONCE : number * AT_ONCE]
    return {
        "asked": asked._asdict(),
        "rows": [_row(each) for each in shown],
        "total": len(files),
        "found": len(found),
        "passed": sum(each.status == "passed" for each in files),
        "number": number,
        "pages": pages,
        "before": asked.address(number - 1) if number > 1 else "",
        "after": asked.address(number + 1) if number < pages else "",
    }


def _badness(file: PromptSummary) -> tuple[int, float, str]:
    return _WORST.index(file.status), file.score or 0.0, file.path


def _row(file: PromptSummary) -> dict[str, Any]:
    return {
        "path": file.path,
        "address": file_address(file.path),
        "verdict": _VERDICTS[file.status],
        "score": None if file.score is None else percent(file.score),
        "grade": file.grade,
        "judges": ", ".join(file.judges),
        "findings": file.findings,
        "at_us": file.at_us,
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
    scores = [_score(each) for _, each in known[:_TREND]]
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
        spark=as_markup(
            spark_html([score / 100 for score in reversed(scores) if score is not None])
        ),
        details=as_markup(shown),
        history=[_entry(path, name, each, is_shown=name == key) for name, each in known],
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


def _entry(path: str, key: str, evaluation: PromptEvaluation, *, is_shown: bool) -> dict[str, Any]:
    score = _score(evaluation)
    return {
        "address": file_address(path, _name(key)),
        "at_us": evaluation.at_us,
        "verdict": _VERDICTS[evaluation.file.status],
        "score": None if score is None else percent(score),
        "judges": ", ".join(each.judge for each in evaluation.file.groups),
        "tier": evaluation.results[0].execution.tier,
        "is_shown": is_shown,
    }


async def remove(call: PageCall) -> Response:
    """Forget a prompt, which may have been renamed or deleted."""
    path = call.field("path") or _named(call)
    await asyncio.to_thread(call.host.prompts.remove, call.principal.partition, path)
    return see("/prompts")
