"""Checks of an answer on a console: what they expected, and what there was."""

import re
from collections.abc import Iterator, Sequence

from evalwright.contracts.verdicts import CheckResult
from evalwright.reports.formats.console import Style, one_line, wrapped

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<name>.*)$', re.MULTILINE
)

_TRACEBACK = "Traceback (most recent call last):"


def render_checks(checks: Sequence[CheckResult], style: Style) -> Iterator[str]:
    """Checks, with what those expected that did not pass, and what there was."""
    failed = [check for check in checks if not check.passed]
    if len(checks) > 1:
        yield f"      checks    {len(checks) - len(failed)} of {len(checks)} passed"
    for check in checks:
        score = "" if check.score in (0, 1) else f"  score {check.score:.4g}"
        said, frame = without_frames(check.reason) if check.broken else (check.reason, None)
        reason = f"  {one_line(said, None)}" if said else ""
        turn = "" if check.turn is None else f"turn {check.turn}: "
        first, *rest = wrapped(f"{turn}{check.check}{score}{reason}", style.width, " " * 8)
        shape = style.shape("passed" if check.passed else "failed")
        yield f"      {shape} {first.strip()}"
        yield from rest
        told = [("at", frame)] if frame else []
        if not check.passed:
            told += [("expected", one_line(check.expected, None))] * (check.expected is not None)
            told += [("got", one_line(check.actual, None))] * (check.actual is not None)
        for label, text in told:
            yield from wrapped(f"{label:<10}{text}", style.width, " " * 8, " " * 18)


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
