"""How good the judges of a run are, on the console."""

from collections.abc import Iterator, Sequence

from evalwright.contracts.amounts import NOTHING, percent, share_interval
from evalwright.engine.calibration import CalibrationReport, ToLabel
from evalwright.engine.history import read_history
from evalwright.engine.projection import INVOCATION_TYPES, project_tasks
from evalwright.reports.formats.console import Style, columns, one_line, wrapped
from evalwright.reports.formats.csv import csv_document, csv_text
from evalwright.scoring.calibration import JudgeQuality
from evalwright.scoring.statistics import Estimate
from evalwright.signals.masking import mask_text
from evalwright.store.protocol import EventLog
from evalwright.trace.model import text_of

MOST_CONFUSIONS = 5


def corrected_in_words(report: CalibrationReport) -> str:
    """The raw pass rate and the corrected one, in a sentence."""
    raw = f"The judge passed {percent(report.raw.value)} of the tasks"
    if report.corrected is None:
        return f"{raw}; without its errors the rate is not known."
    found = report.corrected
    return (
        f"{raw}; without its errors it is {percent(found.value)} "
        f"({share_interval(found.low, found.high)})."
    )


def render_calibration(report: CalibrationReport, style: Style) -> Iterator[str]:
    """The corrected rate, how far judge and people agree, and where they do not."""
    yield from map(style.bold, wrapped(corrected_in_words(report), style.width))
    for note in report.missing:
        yield from wrapped(f"{note[0].upper()}{note[1:]}.", style.width)
    yield ""
    rows = [("", "", "95%")]
    rows += [
        ("agreement", *_share(report.agreement)),
        ("kappa", *_number(report.kappa)),
        ("passed by people", *_share(report.base_rate)),
        ("sensitivity", *_share(report.sensitivity)),
        ("specificity", *_share(report.specificity)),
    ]
    if report.reviewers is not None:
        rows.append(("kappa of reviewers", *_number(report.reviewers)))
    yield from (f"  {line}".rstrip() for line in columns(rows, "<>>"))
    parts = {"criterion": report.criteria, "judge": report.by_judge}
    for name, of in parts.items():
        if of:
            yield ""
            yield from _table(name, of)
    for each in report.confusions[:MOST_CONFUSIONS]:
        yield ""
        judge, people = ("passed" if said else "failed" for said in (each.judge, each.people))
        told = f"{each.task_id}: {judge} by the judge, {people} by people"
        if each.confidence < 1:
            told += f"; {percent(each.confidence)} of the votes"
        yield from map(style.bold, wrapped(one_line(told), style.width))
        if each.reason:
            yield from wrapped(one_line(each.reason), style.width, "  ")
    more = len(report.confusions) - MOST_CONFUSIONS
    if more > 0:
        yield ""
        yield f"and {more:,} more; --json lists them all"
    yield ""
    judges = ", ".join(report.judges) or NOTHING
    labels = f"{report.labels:,} {'label' if report.labels == 1 else 'labels'}"
    whose = f" of run {report.labels_of}" if report.labels_of else ""
    yield from wrapped(f"{labels}{whose}; judged by {judges}.", style.width)
    if report.corrected is not None:
        yield from wrapped(f"Method: {report.method}.", style.width)


def next_as_csv(log: EventLog, run_id: str, chosen: Sequence[ToLabel]) -> bytes:
    """Tasks as a table to be filled in; the verdict of the judge is not shown to reviewers."""
    tasks = {each.task_id: each for each in read_history(log, run_id).plan.suite.tasks}
    wanted = [tasks[each.task_id] for each in chosen]
    projected = project_tasks(wanted, log.read(run_id, INVOCATION_TYPES))
    rows = []
    for each in chosen:
        task = projected[each.task_id]
        texts = [text_of(task.task.input), text_of(task.repetitions[0].decided)]
        shown = [csv_text(mask_text(text, personal=False)) for text in texts]
        rows.append([csv_text(each.task_id), "", "", *shown, f"{each.probability:.4f}"])
    return csv_document(["taskId", "passed", "reviewer", "input", "output", "probability"], rows)


def _share(found: Estimate | None) -> tuple[str, str]:
    if found is None:
        return NOTHING, ""
    return percent(found.value), share_interval(found.low, found.high)


def _number(found: Estimate | None) -> tuple[str, str]:
    if found is None:
        return NOTHING, ""
    return f"{found.value:.2f}", f"{found.low:.2f} to {found.high:.2f}"


def _table(name: str, of: dict[str, JudgeQuality]) -> Iterator[str]:
    rows = [(name, "labels", "agreement", "kappa", "sensitivity", "specificity")]
    for key, each in of.items():
        kappa = NOTHING if each.kappa is None else f"{each.kappa.value:.2f}"
        shares = (each.agreement, each.sensitivity, each.specificity)
        agreed, sensitive, specific = (_share(share)[0] for share in shares)
        rows.append((key, f"{each.labels:,}", agreed, kappa, sensitive, specific))
    yield from (f"  {line}".rstrip() for line in columns(rows, "~>>>>>", 76))
