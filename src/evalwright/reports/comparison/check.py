"""A report directory, whoever made it, held against the checklist of the contract."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import msgspec

from evalwright.comparison.gate import HIGH_RISK_KINDS
from evalwright.contracts.documents import open_input, parse_json
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.report import GRAVE, MACHINE_REPORT, QualityFlags
from evalwright.contracts.schema import COMPARE_REPORT, check_schema

_MOST_LISTED = 1_000
_PLAIN = re.compile(r"(?:[a-z]+/)?[\w~-][\w.~-]*", re.ASCII)
_PLAIN_LINES = re.compile(rf"(?:{_PLAIN.pattern}\n)*+", re.ASCII)
_LINES_AT_ONCE = 1 << 16  # bytes


class Listed(msgspec.Struct):
    """Counts all that is wrong, and keeps the first of it."""

    count: int = 0
    first: list[str] = []

    def add(self, each: str) -> None:
        self.count += 1
        if self.count <= _MOST_LISTED:
            self.first.append(each)


def is_portable(path: str) -> bool:
    """Whether a path is relative, stays in its folder, and means the same on any machine."""
    return _is_portable(unquote(path))


def _is_portable(path: str) -> bool:
    if _PLAIN.fullmatch(path):  # as our own links are
        return True
    if not path or "\0" in path or "\\" in path or ":" in path.split("/", 1)[0]:
        return False
    return not (path.startswith("/") or ".." in path.split("/"))


def file_behind(folder: Path, href: str) -> Path | None:
    """The file in the folder that a browser opens for a portable link; None where there is none.

    In a link, what follows `#` or `?` is not part of the file's name unless it is escaped.
    """
    path = href.partition("#")[0].partition("?")[0]
    try:
        target = (folder / unquote(path)).resolve()
        return target if target.is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, links in a circle
        return None


def check_quality(report: Path, hrefs: BinaryIO, missing: Listed, *, masked: bool) -> QualityFlags:
    """The flags of a report whose links are given, each once and on its own line.

    `missing` holds what could not be copied, and is added to.
    """
    violations = Listed()
    while lines := b"".join(hrefs.readlines(_LINES_AT_ONCE)).decode():
        plain = _PLAIN_LINES.fullmatch(lines) is not None  # as our own links are
        for href in lines.split("\n")[:-1]:
            path = href if plain else unquote(href)
            if not plain and not _is_portable(path):
                violations.add(href)
            elif not os.path.isfile(f"{report}/{path}"):  # noqa: PTH113 - many thousands
                missing.add(href)
    return QualityFlags(
        self_contained=not missing.count,
        portable_paths=not violations.count,
        missing_assets_count=missing.count,
        path_violations_count=violations.count,
        missing_assets=tuple(missing.first),
        path_violations=tuple(violations.first),
        secrets_masked=masked,
    )


_LINK = re.compile(rb'<(a|link|script|img|iframe)\b[^>]*?\s(?:href|src)="([^"]{0,2000})"')
_MOST_READ = 64 << 20


def check_report(folder: Path) -> int:
    """The number of items of a report that keeps the contract; raises with all its problems."""
    path = folder / MACHINE_REPORT
    try:
        with open_input(path) as file:
            report = parse_json(file.read(), str(path))
    except OSError as error:
        remedy = "a report directory holds this file"
        raise BadInput(f"{path}: cannot be read: {error.strerror}; {remedy}") from None
    problems = check_schema(report, COMPARE_REPORT) or [*_beyond_the_schema(folder, report)]
    if problems:
        raise InvalidDocument(str(path), problems)
    return len(report["items"])


def _beyond_the_schema(folder: Path, report: dict[str, Any]) -> Iterator[Problem]:
    if not (folder / "report.html").is_file():
        yield Problem("report.html", "is missing", "the report for people belongs beside this file")
    for name in ("baseline_dir", "new_dir", "cases_path"):
        if not is_portable(report[name]):
            yield Problem(f"$.{name}", f"{report[name]!r} is not a relative path", _RELATIVE)
        elif not _exists(folder / report[name]):
            remedy = "the report holds copies of what it rests on"
            yield Problem(f"$.{name}", f"{report[name]!r} is not in the report", remedy)
    unresolved: list[str] = []
    for number, item in enumerate(report["items"]):
        place = f"$.items[{number}]"
        yield from _links(folder, item["artifacts"], f"{place}.artifacts", unresolved)
        yield from _gates(item, f"{place}.security")
        meant = _CHANGES[item["baseline_pass"], item["new_pass"]]
        stated = item.get("change", meant)
        if stated != meant:
            yield Problem(f"{place}.change", f"is {stated!r}, but the results say {meant!r}")
    hrefs = [item["artifacts"]["replay_diff_href"] for item in report["items"]]
    # What the pages refer to and the report does not hold; each missing file is named once
    pages = ["report.html", *filter(is_portable, hrefs)]
    known: set[str] = set()
    for page in pages:
        try:
            with open_input(folder / page) as file:
                found = _LINK.findall(file.read(_MOST_READ))
        except OSError:  # a missing page is reported elsewhere
            continue
        for element, href in found:
            target = unescape(href.decode("utf-8", "replace")).partition("#")[0]
            if target in known or not target:
                continue
            known.add(target)
            if not is_portable(target):
                if element != b"a":  # what is followed by hand is not needed to read the page
                    message = f"needs {target!r}, which is not in the report"
                    yield Problem(page, message, "copy it into assets/")
            elif file_behind(folder, target) is None:
                message = f"refers to {target!r}, which is not in the report"
                yield Problem(page, message, "copy it there")
    yield from _flags(folder, report["quality_flags"], unresolved)
    yield from _counts(report["summary"], report["items"])


_CHANGES = {
    (True, True): "still_passing",
    (True, False): "regression",
    (False, True): "improvement",
    (False, False): "still_failing",
}


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
        stated = str(flags["self_contained"]).lower()
        message = f"is {stated}, but the files on disk say otherwise"
        yield Problem(f"{place}.self_contained", message)
    if flags["portable_paths"] != (flags["path_violations_count"] == 0):
        message = f"is {str(flags['portable_paths']).lower()}, but the violations say otherwise"
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
    security = summary["security"]
    for side in ("baseline", "new"):
        signals = [item["security"][side]["signals"] for item in items]
        with_signals = sum(bool(each) for each in signals)
        name = f"cases_with_signals_{side}"
        if security[name] != with_signals:
            message = f"is {security[name]}, but the items give {with_signals}"
            yield Problem(f"$.summary.security.{name}", message)
        severities = Counter(signal["severity"] for each in signals for signal in each)
        for severity, stated in security[f"signal_counts_{side}"].items():
            if stated != severities[severity]:
                place = f"$.summary.security.signal_counts_{side}.{severity}"
                yield Problem(place, f"is {stated}, but the items give {severities[severity]}")
