"""What a suite noticed of answers that were damaged on purpose, on the console."""

from collections.abc import Callable, Iterator, Mapping

from evalwright.contracts.amounts import percent
from evalwright.engine.mutants import DamageCount, MutationReport, Survivor
from evalwright.reports.formats.console import (
    SHAPES,
    Shape,
    Style,
    columns,
    drawn_bar,
    one_line,
    wrapped,
)

KINDS_IN_WORDS = {
    "other_task": "the answer to another task",
    "empty": "no answer",
    "refusal": "a refusal",
    "off_topic": "another topic",
    "truncated": "half the answer",
    "language": "another language",
    "leak": "a leaked secret",
    "negated": "the opposite",
    "number": "another number",
    "date": "another date",
    "amount": "another amount",
    "name": "another name",
    "id": "another id",
    "json_type": "another type in JSON",
    "missing_field": "a field missing",
    "dropped_call": "a tool not called",
    "doubled_call": "a tool called twice",
    "reordered_calls": "tools in another order",
    "changed_argument": "another argument",
}
MOST_SURVIVORS = 5
_MOST_WEAK = 3
_WEAK = 0.9  # what is noticed less often is named


def noticed_in_words(report: MutationReport) -> str:
    """How many damaged answers were noticed, in a sentence."""
    if report.score is None:
        return "No answer could be damaged."
    return (
        f"{report.noticed:,} of {report.counted:,} damaged answers were noticed "
        f"({percent(report.noticed, report.counted)})."
    )


def render_mutants(
    report: MutationReport,
    style: Style,
    bar: float | None = None,
    name_of: Callable[[str], str] = str,
) -> Iterator[str]:
    """The share, the weakest checks, the kinds, and the first answers that got through."""
    said = noticed_in_words(report)
    if bar is not None and report.score is not None:
        shape: Shape = "ship" if report.score >= bar else "failed"
        said = f"{SHAPES[shape]} {said} The bar is {percent(bar)}."
    yield from map(style.bold, wrapped(said, style.width))
    weak = [
        (name, tally)
        for name, tally in sorted(report.checks.items(), key=lambda each: each[1].share)
        if tally.share < _WEAK
    ]
    for name, tally in weak[:_MOST_WEAK]:
        told = f"Weak: tasks with {name} noticed {tally.noticed:,} of {tally.counted:,}."
        if "of one word" in name:
            told += " One word is in many wrong answers, too: check what must be right about it."
        yield from wrapped(told, style.width)
    yield ""
    yield from _table("damage", {KINDS_IN_WORDS[kind]: each for kind, each in report.kinds.items()})
    by_task = {name_of(each): of for each, of in report.tasks.items() if of.share < _WEAK}
    if by_task:
        yield ""
        worst = sorted(by_task.items(), key=lambda each: each[1].share)[:MOST_SURVIVORS]
        yield from _table("task", dict(worst))
    for survivor in report.survivors[:MOST_SURVIVORS]:
        yield ""
        yield from _survivor(survivor, name_of(survivor.task_id), style)
    more = len(report.survivors) - MOST_SURVIVORS
    if more > 0:
        yield ""
        yield f"and {more:,} more that passed; --json lists them all"
    notes = []
    if report.unchecked:
        count = len(report.unchecked)
        are = "answer differs" if count == 1 else "answers differ"
        notes.append(f"{count:,} {are} in a detail that the task does not name; not counted")
    for reason, tasks in report.left_out.items():
        are = "task was" if len(tasks) == 1 else "tasks were"
        notes.append(f"{len(tasks):,} {are} left out: {reason}")
    if notes:
        yield ""
        yield from notes


def _table(head: str, tallies: Mapping[str, DamageCount]) -> Iterator[str]:
    rows = [(head, "noticed", "")]
    rows += [
        (name, f"{each.noticed:,} of {each.counted:,}", drawn_bar(each.share))
        for name, each in tallies.items()
    ]
    for line in columns(rows, "~><"):
        yield f"  {line}".rstrip()


def _survivor(survivor: Survivor, name: str, style: Style) -> Iterator[str]:
    about = f"{name}: {KINDS_IN_WORDS[survivor.kind]}, and it still passes"
    yield f"{style.shape('failed')} {style.bold(one_line(about))}"
    for label, text in (("answer", survivor.original), ("damaged", survivor.damaged)):
        yield from wrapped(one_line(text), style.width, f"  {label:8} ", " " * 11)
    if survivor.check:
        yield from wrapped(survivor.check, style.width, "  add      ", " " * 11)
