"""Which cases are compared, and which files answer them."""

import json
import os
import resource
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from comparing import Pair, a_case, a_response
from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.case_plan import CasePlan
from evalwright.comparison.materialize import materialize
from evalwright.comparison.run_folder import RunFolder, Unreadable
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.trace.importers.records import Imported


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path / "runs")


def planned(pair, *, with_cases=True):
    cases = CaseFile(pair.save()) if with_cases else None
    plan = CasePlan(cases, RunFolder(pair.baseline), RunFolder(pair.new))
    listed = list(plan)
    assert len(listed) == plan.count
    return {case.id: case for case in listed}


def test_a_case_is_answered_by_the_file_that_bears_its_id(pair):
    pair.add(a_case("one"), a_response(), a_response())
    case = planned(pair)["one"]
    assert (case.baseline, case.new) == (("one.json",), ("one.json",))


def test_a_case_without_responses_is_still_planned(pair):
    pair.add(a_case("one"))
    assert planned(pair)["one"].new == ()


def test_a_response_that_no_case_asked_for_is_a_case_of_its_own(pair):
    pair.write(pair.new, "extra", a_response(case_id="extra"))
    case = planned(pair)["extra"]
    assert case.number is None
    assert "not in the case file" in case.faults[0]


def test_a_file_with_another_name_answers_the_case_that_it_names(pair):
    pair.add(a_case("a/b"[:1] + "-b"))
    pair.cases.append(a_case("x/../y"))
    pair.write(pair.new, "x%2F..%2Fy", a_response(case_id="x/../y"))
    assert planned(pair)["x/../y"].new == ("x%2F..%2Fy.json",)


def test_two_files_of_one_case_are_repeats(pair):
    pair.add(a_case("one"), a_response(), a_response())
    pair.write(pair.new, "one.2", a_response())
    assert planned(pair)["one"].new == ("one.json", "one.2.json")


def test_the_same_id_twice_in_the_case_file_is_named(pair):
    pair.add(a_case("one"), a_response(), a_response())
    pair.cases.append(a_case("one"))
    plan = CasePlan(CaseFile(pair.save()), RunFolder(pair.baseline), RunFolder(pair.new))
    assert [(case.repetition, len(case.faults)) for case in plan] == [(1, 0), (2, 1)]


def test_an_entry_without_an_id_gets_one_and_is_named(pair):
    pair.cases = [None, {"id": 7}, {"title": "x"}]
    found = planned(pair)
    assert set(found) == {"cases[0]", "7", "cases[2]"}
    assert all(case.faults for case in found.values())


def test_cases_that_neither_run_selected_are_left_out_and_counted(pair):
    pair.cases = [a_case("one"), a_case("two")]
    for side in (pair.baseline, pair.new):
        pair.write(side, "run", {"selected_case_ids": ["one"]})
    plan = CasePlan(CaseFile(pair.save()), RunFolder(pair.baseline), RunFolder(pair.new))
    assert [case.id for case in plan] == ["one"]
    assert plan.notes == ["1 cases of the case file were selected by neither run."]


def test_a_selected_case_without_a_response_is_missing_not_left_out(pair):
    pair.write(pair.new, "run", {"selected_case_ids": ["gone"]})
    assert planned(pair)["gone"].new == ()


@pytest.mark.parametrize(
    "told",
    [
        b'["one", "two"]',
        b'[ "one"\n,\t"two" ]',
        b'["one", 5, null, "two"]',
        b'["\\u006fne", "two"]',
        b'["one", ["three"], {"four": "five"}, "two"]',
    ],
)
def test_the_selected_cases_are_the_texts_of_the_list_however_it_is_written(pair, told):
    pair.write(pair.new, "run", b'{"run_id": "x", "selected_case_ids": ' + told + b"}")
    run = RunFolder(pair.new)
    assert (run.meta, run.meta_fault) == ({"run_id": "x"}, None)
    assert list(run.selected()) == ["one", "two"]


@pytest.mark.parametrize("told", [b'["\xff"]', b'["\\ud800"]', b'["a" "b"]', b'["a",]', b'["\n"]'])
def test_a_broken_list_of_selected_cases_breaks_the_run_file(pair, told):
    pair.write(pair.new, "run", b'{"run_id": "x", "selected_case_ids": ' + told + b"}")
    run = RunFolder(pair.new)
    assert "not valid JSON" in run.meta_fault
    assert run.selected() is None


@pytest.mark.parametrize("told", [b"5", b"null", b'"one"', b'{"one": "two"}'])
def test_what_is_no_list_selects_nothing(pair, told):
    pair.write(pair.new, "run", b'{"selected_case_ids": ' + told + b"}")
    assert RunFolder(pair.new).selected() is None


def test_a_file_name_that_is_no_text_is_planned_as_it_is(pair):
    odd = os.fsdecode(b"\xff.json")
    (pair.new / odd).write_text("{}")
    assert planned(pair)["\ufffd"].new == (odd,)


def test_strays_are_taken_in_the_order_of_their_names(pair):
    for name in ("a", "a-b", "a.2", "B"):
        pair.write(pair.new, name, a_response(case_id="same"))
    assert planned(pair)["same"].new == ("B.json", "a-b.json", "a.2.json", "a.json")


def laid_out(folder, *answers):
    """A run of traces, each with its case and the key of its baseline."""
    return materialize((Imported(case, {}, base) for case, base in answers), {}, folder)


def test_a_trace_finds_its_baseline_by_the_key_that_it_names(tmp_path):
    baseline = laid_out(tmp_path / "baseline", ("b1", "greeting"), ("b2", "greeting"))
    new = laid_out(tmp_path / "new", ("n1", "greeting"))
    (case,) = CasePlan(None, baseline, new)
    assert (case.id, case.baseline, case.new) == (
        "n1",
        ("00000000.json", "00000001.json"),
        ("00000000.json",),
    )


def test_baselines_of_nothing_are_cases_even_if_they_share_a_key(tmp_path):
    baseline = laid_out(tmp_path / "baseline", ("a", None), ("b", "a"), ("a", None))
    plan = CasePlan(None, baseline, laid_out(tmp_path / "new", ("n", None)))
    assert [(case.id, len(case.baseline)) for case in plan] == [("n", 0), ("a", 2), ("b", 1)]


def test_memory_hardly_grows_with_the_cases(pair):
    count = 3_000
    pair.cases = [a_case(f"case-{number:06}") for number in range(count)]
    for side in (pair.baseline, pair.new):
        pair.write(side, "run", {"selected_case_ids": [case["id"] for case in pair.cases]})
        for case in pair.cases:
            (side / f"{case['id']}.json").touch()
    path = pair.save()
    tracemalloc.start()
    try:
        plan = CasePlan(CaseFile(path), RunFolder(pair.baseline), RunFolder(pair.new))
        assert sum(1 for _ in plan) == count
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 40 * count


def test_without_a_case_file_the_responses_are_the_cases(pair):
    pair.write(pair.new, "one", a_response())
    assert planned(pair, with_cases=False)["one"].faults == ()


def test_an_unreadable_run_directory_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        RunFolder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_response_that_cannot_be_used_says_why(pair, content, reason):
    pair.write(pair.new, "one", content)
    found = RunFolder(pair.new).read("one.json").value
    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_a_link_out_of_the_run_directory_is_not_followed(pair, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(a_response(output="the keys of the house")))
    (pair.new / "one.json").symlink_to(secret)
    found = RunFolder(pair.new).read("one.json").value
    assert isinstance(found, Unreadable)
    assert "leads out" in found.reason


def test_a_run_file_that_is_broken_is_named_and_not_needed(pair):
    pair.write(pair.new, "run", b"{")
    run = RunFolder(pair.new)
    assert run.meta == {}
    assert "not valid JSON" in run.meta_fault


class ManyCases:
    """As many cases as an id is given for."""

    path = None

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = ids

    def ids(self) -> Iterator[str]:
        return iter(self._ids)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def test_a_full_disk_is_said_to_be_the_reason(pair):
    cases = ManyCases(f"case-{number}" for number in range(200_000))
    runs = RunFolder(pair.baseline), RunFolder(pair.new)
    with (
        files_of_at_most(1 << 20),
        pytest.raises(CannotEvaluate, match="cannot write temporary files"),
    ):
        CasePlan(cases, *runs)


def test_a_failure_of_the_source_is_not_taken_for_one_of_the_disk(pair):
    def broken() -> Iterator[str]:
        yield "one"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        CasePlan(ManyCases(broken()), RunFolder(pair.baseline), RunFolder(pair.new))
