"""Expected beside actual on a console, cut so that the place where they differ is seen."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from evalwright.contracts.verdicts import CheckResult
from evalwright.reports.formats.console import Style, one_line, printable

SHOWN_BEFORE = 40  # characters that both have, so that the place is recognised
_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<name>.*)$', re.MULTILINE
)

_TRACEBACK = "Traceback (most recent call last):"


class Sides(NamedTuple):
    """Two texts, and from which character on they are shown."""

    expected: str
    actual: str


def both_sides(expected: Any, actual: Any, limit: int | None) -> Sides:
    """Two values on a line each; of long ones that begin alike, from where they differ."""
    texts = one_line(expected, None), one_line(actual, None)
    if limit is None or max(map(len, texts)) <= limit:
        return Sides(*texts)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(0, same - SHOWN_BEFORE)
    if same + SHOWN_BEFORE <= limit:  # it is seen from the beginning
        start = 0
    return Sides(*(_cut(text, start, limit) for text in texts))


def _cut(text: str, start: int, limit: int) -> str:
    before = f"({start} characters) …" if start else ""
    rest = len(text) - start - limit
    after = f"… (+{rest} characters)" if rest > 0 else ""
    return f"{before}{text[start : start + limit]}{after}"


def render_checks(
    checks: Sequence[CheckResult], style: Style, limit: int | None, *, full: bool
) -> Iterator[str]:
    """The checks that did not pass, each with what it expected and what there was; or all."""
    failed = [check for check in checks if not check.passed]
    if len(checks) > 1:
        yield f"checks    {len(checks) - len(failed)} of {len(checks)} passed"
    for check in checks if full else failed:
        mark = style.green("✓") if check.passed else style.red("✗")
        score = "" if check.score in (0, 1) else f"  {style.dim(f'score {check.score:.4g}')}"
        said, frame = without_frames(check.reason) if check.broken else (check.reason, None)
        reason = f"  {one_line(said, limit)}" if said else ""
        turn = "" if check.turn is None else f"turn {check.turn}: "
        yield f"{mark} {turn}{style.bold(printable(check.check))}{score}{reason}"
        if frame:
            yield f"  at        {frame}"
        if check.passed:
            continue
        sides = both_sides(check.expected, check.actual, limit)
        if check.expected is not None:
            yield f"  expected  {sides.expected}"
        if check.actual is not None:
            yield f"  got       {sides.actual}"


def without_frames(reason: str) -> tuple[str, str | None]:
    """What was raised, in place of the traceback in a reason, and its last frame if it has one."""
    frame = last_frame(reason)
    if frame is None:
        return reason, None
    start = max(reason.find(_TRACEBACK), 0)
    raised = [line for line in reason[start:].splitlines() if line and not line.startswith(" ")]
    return reason[:start] + "\n".join(line for line in raised if line != _TRACEBACK), frame


def last_frame(trace: str) -> str | None:
    """Where an exception was raised: file, line, function, and the code there."""
    found = None
    for found in _FRAME.finditer(trace):  # noqa: B007 - the last one is wanted
        pass
    if found is None:
        return None
    code = trace[found.end() :].lstrip("\n").partition("\n")[0]
    shown = f": {code.strip()}" if code.startswith("    ") else ""
    return one_line(f"{found['file']}:{found['line']} in {found['name']}{shown}")
