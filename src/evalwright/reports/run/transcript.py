"""A task on a console as a conversation: who said what, and calls on a line each."""

from collections.abc import Iterator, Sequence

from evalwright.reports.design.talk import Remark, TalkStep
from evalwright.reports.formats.console import Style, cut, width, wrapped

_INDENT = "    "


def render_transcript(steps: Sequence[TalkStep], style: Style) -> list[str]:
    """The steps of a conversation; what failed is unfolded."""
    return [line for step in steps for line in _lines(step, style)]


def _lines(step: TalkStep, style: Style) -> Iterator[str]:
    room = style.width
    if step.kind == "note":
        yield from ("", f"  {style.dim(cut(step.text, room - 2))}")
    elif step.kind in ("user", "agent"):
        by, facts = cut(step.by, room - 4), cut(step.facts, room - 4)
        is_beside = width(by) + width(facts) + 4 <= room
        beside = f"  {style.dim(facts)}" if facts and is_beside else ""
        yield from ("", f"  {style.bold(by)}{beside}")
        if not is_beside:
            yield f"{_INDENT}{style.dim(facts)}"
        yield from wrapped(step.text, room, _INDENT)
    else:
        yield _folded(step, style)
        if step.is_open:
            for said in filter(None, (step.text, step.sent, step.error or step.returned)):
                yield from wrapped(said, room, f"{_INDENT}  ")
        elif step.returned:
            yield f"{_INDENT}→ {style.dim(cut(step.returned, room - 6))}"
    for finding in step.findings:
        yield from _finding(finding, style)


def _folded(step: TalkStep, style: Style) -> str:
    """A call or a thought in a line, with what it took at its end."""
    shape = style.shape("error" if step.error else "failed" if step.bad else "passed")
    if step.kind == "thought":
        return f"{_INDENT}{style.dim(cut(f'{step.name}: {step.args}', style.width - 4))}"
    took = "  ".join(filter(None, (step.badge, step.cost)))
    room = style.width - len(_INDENT) - 2 - (width(took) + 2 if took else 0)
    said = cut(f"{step.name} {step.args}", room)
    space = " " * (room - width(said) + 2) if took else ""
    return f"{_INDENT}{shape} {said}{space}{style.dim(took) if took else ''}"


def _finding(finding: Remark, style: Style) -> Iterator[str]:
    told = ". ".join(filter(None, (f"{finding.severity}: {finding.title}", finding.text)))
    first, *rest = wrapped(told, style.width, f"{_INDENT}  ")
    yield f"{_INDENT}{style.shape('failed')} {style.red(first.strip())}"
    yield from map(style.red, rest)
