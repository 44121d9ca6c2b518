"""What got better and worse since a baseline, against noise; and reading results back."""

import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalwright.contracts.errors import InvalidDocument
from evalwright.prompts.change import compare_results, read_results
from evalwright.prompts.results import minimal
from reports.prompts.prompt_samples import a_case, a_result, an_error, records


def the_change(baseline, new):
    (change,) = compare_results(baseline, new).files
    return change


def runs(*scores, path="a.md", **more):
    return [
        a_result(path, score, run=number, total_runs=len(scores), **more)
        for number, score in enumerate(scores, 1)
    ]


class TestTheLinter:
    """Tier 0 is exact."""

    def test_any_loss_is_real(self):
        change = the_change(
            [a_result(score=8.0, tier=0)], [a_result(score={"clarity": 7.9996}, tier=0)]
        )
        assert change.verdict == "worse"
        assert change.delta == pytest.approx(-0.001)

    def test_any_gain_is_real(self):
        assert the_change([a_result(score=7.0, tier=0)], [a_result(score=7.1, tier=0)]).verdict == (
            "better"
        )

    def test_no_change_is_the_same(self):
        change = compare_results([a_result(tier=0)], [a_result(tier=0)])
        assert change.files[0].verdict == "same"
        assert not change.regressed


class TestAJudge:
    def test_one_run_on_each_side_tells_nothing_of_the_noise(self):
        change = the_change([a_result(score=9.0)], [a_result(score=5.0)])
        assert change.verdict == "noise unknown"
        assert change.noise is None

    def test_a_change_smaller_than_the_scatter_is_within_noise(self):
        change = the_change(runs(7.0, 8.0, 9.0), runs(6.5, 7.5, 8.5))
        assert change.verdict == "within noise"
        assert change.noise == pytest.approx(10.0)
        assert change.margin > 5

    def test_a_change_larger_than_the_scatter_is_real(self):
        change = compare_results(runs(8.0, 8.1, 7.9), runs(5.0, 5.1, 4.9))
        assert change.files[0].verdict == "worse"
        assert change.files[0].delta == pytest.approx(-30)
        assert change.regressed

    def test_the_scatter_of_other_files_counts_for_a_file_whose_runs_agree_by_chance(self):
        scattered = [runs(5.0, 9.0, path=f"{number}.md") for number in range(5)]
        others = [record for file in scattered for record in file]
        change = compare_results(
            [*runs(8.0, 8.0, path="x.md"), *others], [*runs(7.0, 7.0, path="x.md"), *others]
        )
        assert change.files[0].path == "x.md"
        assert change.files[0].verdict == "within noise"

    def test_an_unchanged_library_rarely_raises_an_alarm(self):
        """With a bar for each file alone, nearly every one of these comparisons would."""
        luck = random.Random(5)

        def library():
            return [
                record
                for number in range(30)
                for record in runs(*(luck.gauss(7, 0.4) for _ in range(3)), path=f"{number}.md")
            ]

        alarms = sum(compare_results(library(), library()).regressed for _ in range(40))
        assert alarms <= 5

    def test_files_that_did_not_change_do_not_raise_the_bar_for_one_that_did(self):
        def library(score, content):
            others = [
                record
                for number in range(50)
                for record in runs(7.0, 7.2, path=f"{number}.md", content_sha256="0" * 64)
            ]
            return [*runs(score, score + 0.2, path="x.md", content_sha256=content), *others]

        change = compare_results(library(8.0, "a" * 64), library(7.5, "b" * 64)).files[0]
        assert change.content_changed is True
        assert change.verdict == "worse"
        alone = compare_results(library(8.0, "a" * 64), library(7.5, "a" * 64)).files[0]
        assert alone.content_changed is False
        assert alone.margin > change.margin


def test_what_only_one_side_has_is_told_and_is_no_regression():
    change = compare_results([a_result("old.md"), a_result("x.md")], [a_result("new.md")])
    assert [(each.path, each.verdict) for each in change.files] == [
        ("new.md", "only now"),
        ("old.md", "only before"),
        ("x.md", "only before"),
    ]
    assert not change.regressed


def test_a_file_that_can_no_longer_be_evaluated_has_no_score_now():
    change = the_change([a_result("a.md")], [an_error("a.md")])
    assert (change.verdict, change.before, change.after) == ("only before", 80.0, None)


def test_judges_and_tiers_are_not_mixed():
    before = [a_result(model="phi4", score=9.0, tier=0)]
    now = [a_result(model="mistral", score=5.0, tier=0), a_result(model="phi4", score=5.0, tier=1)]
    change = compare_results(before, now)
    assert change.compared == ()
    assert "Nothing can be compared" in change.notes[0]


def test_the_same_file_written_in_another_way_is_the_same_file():
    assert the_change([a_result("./a/../a/x.md", tier=0)], [a_result("a/x.md", tier=0)]).delta == 0


def test_the_criteria_that_moved_are_told():
    change = the_change([a_result(tier=0)], [a_result(score={"safety": 5.0}, tier=0)])
    assert change.criteria["safety"] == -30
    assert change.criteria["clarity"] == 0


def test_test_cases_that_passed_and_now_fail_are_a_regression_at_the_same_score():
    change = the_change([a_result(cases=[a_case()])], [a_result(cases=[a_case(passed=False)])])
    assert change.verdict == "worse"
    assert change.lost_cases


def test_another_version_of_the_rubric_is_told():
    record = a_result()
    old = msgspec.structs.replace(
        record, metadata=msgspec.structs.replace(record.metadata, rubric_version="0.9.0")
    )
    (note,) = compare_results([old], [record]).notes
    assert "rubric version was 0.9.0" in note


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@given(st.lists(records, max_size=6))
def test_nothing_changes_against_itself(results):
    change = compare_results(results, results)
    assert {each.verdict for each in change.files} <= {"same"}


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@given(st.lists(records, max_size=5), st.lists(records, max_size=5))
def test_turned_round_better_is_worse(before, now):
    opposite = {"better": "worse", "worse": "better", "only now": "only before"}
    opposite |= {after: before for before, after in opposite.items()}

    def verdicts(change):
        return {
            (each.path, each.judge, each.tier): each.verdict
            for each in change.files
            if not each.lost_cases
        }

    there, back = verdicts(compare_results(before, now)), verdicts(compare_results(now, before))
    assert {
        key: opposite.get(verdict, verdict) for key, verdict in there.items() if key in back
    } == {key: verdict for key, verdict in back.items() if key in there}


class TestReadingResults:
    @settings(suppress_health_check=[HealthCheck.too_slow], max_examples=50)
    @given(st.lists(records, max_size=4))
    def test_what_was_written_is_read_as_it_was(self, results):
        array = msgspec.json.encode(results)
        lines = b"\n".join(map(msgspec.json.encode, results)) or b"[]"
        assert read_results(array, "x.json") == results
        assert read_results(lines, "x.jsonl") == results

    def test_one_object_is_one_record_in_either_form(self):
        for record in (a_result(), minimal(a_result()), an_error()):
            assert read_results(msgspec.json.encode(record), "x.json") == [record]

    def test_a_byte_order_mark_is_passed_over(self):
        assert read_results(b"\xef\xbb\xbf[]", "x.json") == []

    def test_a_record_that_breaks_the_schema_is_named_with_its_place(self):
        good = msgspec.to_builtins(a_result())
        bad = {**good, "threshold": 700}
        with pytest.raises(InvalidDocument) as error:
            read_results(msgspec.json.encode([good, bad]), "base.json")
        assert str(error.value).startswith("base.json: $[1].threshold: 700 is greater than")

    def test_a_bad_line_is_named_by_its_number(self):
        good = msgspec.json.encode(a_result())
        bad = good.replace(b'"passed":true', b'"passed":"yes"')
        with pytest.raises(InvalidDocument, match=r"base\.jsonl: line 3: \$\.passed: "):
            read_results(good + b"\n\n" + bad + b"\n", "base.jsonl")

    def test_a_torn_line_is_named_by_its_number(self):
        good = msgspec.json.encode(a_result())
        with pytest.raises(InvalidDocument, match=r"line 2: not JSON"):
            read_results(good + b"\n" + good[:40] + b"\n", "base.jsonl")

    @pytest.mark.parametrize("source", [b"", b"no json", b"\xff\xfe", b"[1,", b"3", b"[[]]"])
    def test_what_is_no_result_is_refused(self, source):
        with pytest.raises(InvalidDocument):
            read_results(source, "base.json")

    def test_an_error_that_claims_to_pass_is_refused(self):
        record = {**msgspec.to_builtins(an_error()), "passed": True}
        with pytest.raises(InvalidDocument, match="passed"):
            read_results(msgspec.json.encode(record), "base.json")

    def test_of_very_many_problems_the_first_are_told(self):
        with pytest.raises(InvalidDocument) as error:
            read_results(b"[" + b",".join([b"{}"] * 100) + b"]", "base.json")
        assert len(error.value.problems) == 21
        assert "more problems" in error.value.problems[-1].message
