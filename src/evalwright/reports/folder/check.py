"""A report directory, whoever made it, held against the checklist of the contract."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

from evalwright.comparison.gate import HIGH_RISK_KINDS
from evalwright.contracts.documents import open_input, parse_json
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.report import GRAVE, MACHINE_REPORT
from evalwright.contracts.schema import COMPARE_REPORT, check_schema
from evalwright.reports.folder.quality import file_behind, is_portable

_LINK = re.compile(rb'<(a|link|script|img|iframe)\b[^>]*?\s(?:href|src)="([^"]{0,2000})"')
_MOST_READ = 64 << 20


def check_report(folder: Path) -> int:
    """The number of items of a report that keeps the contract; raises with all its problems."""
    path = folder / MACHINE_REPORT
    report = parse_json(_read(path), str(path))
    problems = check_schema(report, COMPARE_REPORT) or [*_beyond_the_schema(folder, report)]
    if problems:
        raise InvalidDocument(str(path), problems)
    return len(report["items"])


def _read(path: Path) -> bytes:
    remedy = "a report directory holds this file"
    try:
        with open_input(path) as file:
            return file.read()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}; {remedy}") from None


def _beyond_the_schema(folder: Path, report: dict[str, Any]) -> Iterator[Problem]:
    yield from _human_report(folder)
    yield from _top_paths(folder, report)
    unresolved: list[str] = []
    for number, item in enumerate(report["items"]):
        place = f"$.items[{number}]"
        yield from _links(folder, item["artifacts"], f"{place}.artifacts", unresolved)
        yield from _gates(item, f"{place}.security")
        yield from _change(item, place)
    yield from _page_problems(folder, _pages(report["items"]))
    yield from _flags(folder, report["quality_flags"], unresolved)
    yield from _counts(report["summary"], report["items"])


def _pages(items: list[dict[str, Any]]) -> Iterator[str]:
    yield "report.html"
    for item in items:
        if is_portable(item["artifacts"]["replay_diff_href"]):
            yield item["artifacts"]["replay_diff_href"]


_CHANGES = {
    (True, True): "still_passing",
    (True, False): "regression",
    (False, True): "improvement",
    (False, False): "still_failing",
}


def _change(item: dict[str, Any], place: str) -> Iterator[Problem]:
    meant = _CHANGES[item["baseline_pass"], item["new_pass"]]
    stated = item.get("change", meant)
    if stated != meant:
        yield Problem(f"{place}.change", f"is {stated!r}, but the results say {meant!r}")


def _human_report(folder: Path) -> Iterator[Problem]:
    if not (folder / "report.html").is_file():
        yield Problem("report.html", "is missing", "the report for people belongs beside this file")


def _top_paths(folder: Path, report: dict[str, Any]) -> Iterator[Problem]:
    for name in ("baseline_dir", "new_dir", "cases_path"):
        if not is_portable(report[name]):
            yield Problem(f"$.{name}", f"{report[name]!r} is not a relative path", _RELATIVE)
        elif not _exists(folder / report[name]):
            remedy = "the report holds copies of what it rests on"
            yield Problem(f"$.{name}", f"{report[name]!r} is not in the report", remedy)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


_RELATIVE = "give a path relative to the report directory, without `..`"


def _links(
    folder: Path, artifacts: dict[str, Any], place: str, unresolved: list[str]
) -> Iterator[Problem]:
    root = folder.resolve()
    for name, href in artifacts.items():
        if not name.endswith("_href") or not isinstance(href, str):
            continue
        if not is_portable(href):
            yield Problem(f"{place}.{name}", f"{href!r} is not a relative link", _RELATIVE)
            continue
        target = file_behind(folder, href)
        if target is None:
            unresolved.append(href)
            yield Problem(f"{place}.{name}", f"{href!r} is not in the report", "copy it there")
        elif not target.is_relative_to(root):
            yield Problem(f"{place}.{name}", f"{href!r} leads out of the report", _RELATIVE)


def _gates(item: dict[str, Any], place: str) -> Iterator[Problem]:
    """The contract's rule, as far as the item alone shows it: actions are not in it."""
    for side in ("baseline", "new"):
        security = item["security"][side]
        stated = security["requires_gate_recommendation"]
        grave = any(each["severity"] in GRAVE for each in security["signals"])
        worse = side == "new" and item["baseline_pass"] and not item["new_pass"]
        risky = any(each["kind"] in HIGH_RISK_KINDS for each in security["signals"])
        here = f"{place}.{side}.requires_gate_recommendation"
        if stated and not grave:
            yield Problem(here, "is true, but no signal of this side is high or critical")
        elif not stated and grave and (worse or risky):
            why = "the case is a regression" if worse else "a signal tells of a high-risk action"
            yield Problem(here, f"is false, but a signal is high or critical and {why}")


def _flags(folder: Path, flags: dict[str, Any], unresolved: list[str]) -> Iterator[Problem]:
    place = "$.quality_flags"
    for noun in ("missing_assets", "path_violations"):
        listed, count = len(flags[noun]), flags[f"{noun}_count"]
        if count < listed or (count > 0) != (listed > 0):
            yield Problem(f"{place}.{noun}_count", f"is {count}, but {listed} are listed")
    if flags["self_contained"] != (flags["missing_assets_count"] == 0 and not unresolved):
        message = f"is {_json(flags['self_contained'])}, but the files on disk say otherwise"
        yield Problem(f"{place}.self_contained", message)
    if flags["portable_paths"] != (flags["path_violations_count"] == 0):
        message = f"is {_json(flags['portable_paths'])}, but the violations say otherwise"
        yield Problem(f"{place}.portable_paths", message)
    for href in flags["missing_assets"]:
        if is_portable(href) and file_behind(folder, href) is not None:
            yield Problem(f"{place}.missing_assets", f"{href!r} is listed, but it is there")


def _counts(summary: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Problem]:
    pairs = [(item["baseline_pass"], item["new_pass"]) for item in items]
    counted = {
        "baseline_pass": sum(before for before, _ in pairs),
        "new_pass": sum(after for _, after in pairs),
        "regressions": sum(before and not after for before, after in pairs),
        "improvements": sum(after and not before for before, after in pairs),
        "total_cases": len(items),
        "gated_cases": sum(
            item["security"]["new"]["requires_gate_recommendation"] for item in items
        ),
    }
    for name, count in counted.items():
        if summary.get(name, count) != count:
            yield Problem(f"$.summary.{name}", f"is {summary[name]}, but the items give {count}")
    total = summary["security"]["total_cases"]
    if total != len(items):
        message = f"is {total}, but there are {len(items)} items"
        yield Problem("$.summary.security.total_cases", message)
    roots = Counter(item["new_root"] for item in items if "new_root" in item)
    for cause, stated in summary["root_cause_breakdown"].items():
        if stated != roots[cause]:
            place = f"$.summary.root_cause_breakdown.{cause}"
            yield Problem(place, f"is {stated}, but the items give {roots[cause]}")
    for side in ("baseline", "new"):
        yield from _signal_counts(summary["security"], items, side)


def _signal_counts(
    security: dict[str, Any], items: list[dict[str, Any]], side: str
) -> Iterator[Problem]:
    signals = [item["security"][side]["signals"] for item in items]
    with_signals = sum(bool(each) for each in signals)
    name = f"cases_with_signals_{side}"
    if security[name] != with_signals:
        message = f"is {security[name]}, but the items give {with_signals}"
        yield Problem(f"$.summary.security.{name}", message)
    for severity, stated in security[f"signal_counts_{side}"].items():
        count = sum(signal["severity"] == severity for each in signals for signal in each)
        if stated != count:
            place = f"$.summary.security.signal_counts_{side}.{severity}"
            yield Problem(place, f"is {stated}, but the items give {count}")


def _json(value: bool) -> str:  # noqa: FBT001 - a JSON boolean as JSON writes it
    return "true" if value else "false"


def _page_problems(folder: Path, pages: Iterable[str]) -> Iterator[Problem]:
    """What the pages refer to and the report does not hold; each missing file is named once."""
    known: set[str] = set()
    for page in pages:
        for element, href in _links_in(folder / page):
            target = href.partition("#")[0]
            if target in known or not target:
                continue
            known.add(target)
            problem = _link_problem(folder, element, target)
            if problem is not None:
                yield Problem(page, *problem)


def _links_in(page: Path) -> Iterator[tuple[str, str]]:
    try:
        with open_input(page) as file:
            source = file.read(_MOST_READ)
    except OSError:  # a missing page is reported elsewhere
        return
    for element, href in _LINK.findall(source):
        yield element.decode(), unescape(href.decode("utf-8", "replace"))


def _link_problem(folder: Path, element: str, target: str) -> tuple[str, str] | None:
    if not is_portable(target):
        if element == "a":  # a link that is followed by hand needs no network to read the page
            return None
        return f"needs {target!r}, which is not in the report", "copy it into assets/"
    if file_behind(folder, target) is None:
        return f"refers to {target!r}, which is not in the report", "copy it there"
    return None
