"""What reviewers said on the pages of a run, as labels of its judges."""

import msgspec

from engine.test_asking_checks_in_runs import GREETS
from engine.test_checked_runs import a_checked_task, of_checks, says
from evalwright.contracts.annotation import (
    ANNOTATION_KIND,
    Actor,
    Annotation,
    AnnotationTarget,
    Signal,
)
from evalwright.engine.calibration import calibrate, labels_in_log
from evalwright.store.records import RecordChange
from subjects.judges import JUDGE, Judge, a_judge
from subjects.runs import Workshop


def reviewed(workshop: Workshop, run_id: str, *said: tuple[str, str, str]) -> None:
    changes = []
    for number, (task_id, reviewer, verdict) in enumerate(said):
        target = AnnotationTarget(run_id, node_id=task_id)
        signal = Signal("correction", correction=verdict)
        annotation = Annotation(f"ann_{number:04}", target, signal, Actor(reviewer), "2026-01-01")
        body = msgspec.json.encode(annotation)
        tenant = workshop.log.facts(run_id).tenant
        key = f"{run_id}/{annotation.annotation_id}"
        changes.append(RecordChange(ANNOTATION_KIND, tenant, key, body))
    workshop.log.records.write(changes).result()


def test_reviews_are_labels_and_the_last_word_counts(workshop: Workshop) -> None:
    suite = of_checks(*(a_checked_task(f"t{n}", GREETS, input=f"{n}?") for n in range(6)))
    judge = a_judge(c1=True, c2=True)
    run = workshop.run(suite, says("Hello!"), resources=judge.panel(), judges=(JUDGE,))
    reviewed(
        workshop,
        run.run_id,
        ("t0", "ann", "fail"),
        ("t0", "ann", "pass"),
        ("t1", "ann", "fail"),
        ("t1", "bo", "fail"),
        ("t2", "ann", "unclear"),
    )
    labels = labels_in_log(workshop.log, run.run_id)
    assert {(each.task_id, each.reviewer, each.passed) for each in labels} == {
        ("t0", "ann", True),
        ("t1", "ann", False),
        ("t1", "bo", False),
    }
    report = calibrate(workshop.log, run.run_id, labels)
    assert report.labels == 2
    (wrong,) = report.confusions
    assert (wrong.task_id, wrong.judge, wrong.people) == ("t1", True, False)
    assert report.corrected is not None
    assert report.corrected.value == 0.5


def test_a_split_vote_is_less_sure_and_each_judge_has_its_figures(workshop: Workshop) -> None:
    suite = of_checks(*(a_checked_task(f"t{n}", {"judge": "is short"}) for n in range(4)))
    kind = a_judge(c1=True)
    strict = Judge(lambda _name, _text: False, "scripted:strict")
    other = Judge(lambda _name, _text: True, "scripted:third")
    from evalwright.engine.judges import Panel
    from evalwright.engine.task_work import RunResources

    judges = (kind, strict, other)
    resources = RunResources(panel=Panel([each.model() for each in judges]))
    names = tuple(each.name for each in judges)
    run = workshop.run(suite, says("Hello!"), resources=resources, judges=names)
    reviewed(workshop, run.run_id, ("t0", "ann", "fail"), ("t1", "ann", "pass"))
    report = calibrate(workshop.log, run.run_id, labels_in_log(workshop.log, run.run_id))
    assert report.confusions[0].confidence < 1
    assert report.by_judge.keys() == set(names)
    assert report.by_judge["scripted:strict"].agreement.value == 0.5
