"""A task on a console as a conversation: who said what, and calls on a line each."""

from collections.abc import Iterator, Sequence

from evalwright.reports.design.talk import Remark, TalkStep
from evalwright.reports.formats.console import Style, cut, width, wrapped

_INDENT = "    "
_MOST_STEPS = 60
_MOST_LINES = 12  # of a text


def render_transcript(steps: Sequence[TalkStep], style: Style, *, full: bool = False) -> list[str]:
    """The steps of a conversation; what failed is unfolded. Unless `full`, it has a bounded length.

    Of very many steps the first and the last are shown, and those that failed.
    """
    half, count = _MOST_STEPS // 2, len(steps)
    has_turns = sum(step.kind == "agent" for step in steps) > 1  # else checks follow anyway
    failed = [place for place in range(half, count - half) if steps[place].bad]
    chosen = {*range(half), *failed[:half], *range(max(count - half, 0), count)}
    lines: list[str] = []
    passed_over = 0
    for place, step in enumerate(steps):
        if not full and place not in chosen:
            passed_over += 1
            continue
        if passed_over:
            told = f"{passed_over:,} more {'step' if passed_over == 1 else 'steps'}: --full"
            lines += ["", style.dim(f"{_INDENT}… {told}")]
            passed_over = 0
        lines += _lines(step, style, None if full else _MOST_LINES, with_checks=has_turns)
    return lines


def _said(text: str, style: Style, indent: str, most: int | None) -> Iterator[str]:
    """A text, and how much of it is not shown."""
    lines = wrapped(text, style.width, indent)
    if most is None or len(lines) <= most + 1:
        yield from lines
        return
    yield from lines[:most]
    yield style.dim(f"{indent}… {len(lines) - most:,} more lines: --full")


def _lines(step: TalkStep, style: Style, most: int | None, *, with_checks: bool) -> Iterator[str]:
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
        yield from _said(step.text, style, _INDENT, most)
        for check in step.failed if with_checks else ():
            first, *rest = wrapped(f"{check.name}  {check.why}", room - 2, _INDENT, f"{_INDENT}  ")
            yield f"{_INDENT}{style.shape('failed')} {first.strip()}"
            yield from rest
    else:
        yield _folded(step, style)
        if step.is_open:
            parts = (
                ("  ", step.text),
                ("  ", step.sent),
                ("→ ", step.error or step.returned or ""),
            )
            for mark, said in parts[2:] if step.kind == "error" else parts:
                first, *rest = [*_said(said, style, f"{_INDENT}  ", most)] if said else [""]
                yield from [f"{_INDENT}{mark}{first.strip()}", *rest] if said else ()
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
