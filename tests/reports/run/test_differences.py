"""Expected beside actual: the place where they differ is seen, however long they are."""

from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.verdicts import CheckResult
from evalwright.reports.formats.console import Style
from evalwright.reports.run.differences import both_sides, last_frame, render_checks

PLAIN = Style(colour=False)
LONG = "The parcel left our store on Monday, and the carrier says that it is on its way. " * 4


def test_short_values_are_shown_as_they_are() -> None:
    assert both_sides("yes", {"b": 1, "a": None}, 160) == ("yes", '{"a":null,"b":1}')


def test_long_values_that_begin_alike_are_shown_from_where_they_differ() -> None:
    expected, actual = both_sides(LONG + "At noon.", LONG + "At night.", 160)
    assert expected.endswith("it is on its way. At noon.")
    assert actual.endswith("it is on its way. At night.")
    assert expected.startswith(f"({len(LONG) + 4 - 40} characters) …")


def test_values_that_differ_early_are_shown_from_the_beginning() -> None:
    expected, actual = both_sides("No. " + LONG, LONG, 60)
    assert expected.startswith("No. The parcel")
    assert actual.startswith("The parcel")
    assert expected.endswith(f"… (+{len(LONG) + 4 - 60} characters)")


@given(st.text(max_size=300), st.text(max_size=200), st.text(max_size=200), st.integers(90, 200))
def test_two_different_values_never_look_the_same(
    same: str, one: str, other: str, limit: int
) -> None:
    sides = both_sides(same + one, same + other, limit)
    if one != other:
        assert sides.expected != sides.actual
    assert all(len(side) <= limit + 60 for side in sides)


def test_only_checks_that_did_not_pass_are_shown_with_both_sides() -> None:
    checks = [
        CheckResult("contains", True, 1.0, "order", "order A-17"),
        CheckResult("number", False, 0.5, 3, 4, "4 is not 3"),
    ]
    assert list(render_checks(checks, PLAIN, 160, full=False)) == [
        "checks    1 of 2 passed",
        "✗ number  score 0.5  4 is not 3",
        "  expected  3",
        "  got       4",
    ]
    assert any(
        line.startswith("✓ contains") for line in render_checks(checks, PLAIN, 160, full=True)
    )


def test_of_a_check_that_raised_the_last_frame_and_the_message_are_shown() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "checks.py", line 4, in is_polite\n'
        '    return tone(output)\n  File "checks.py", line 2, in tone\n    return output["tone"]\n'
        "TypeError: string indices must be integers"
    )
    for check, before in (("python", ""), ("any", "python: ")):
        raised = CheckResult(check, False, 0.0, None, None, before + trace, broken=True)
        assert list(render_checks([raised], PLAIN, 160, full=False)) == [
            f"✗ {check}  {before}TypeError: string indices must be integers",
            '  at        checks.py:2 in tone: return output["tone"]',
        ]


def test_the_last_frame_of_a_trace_names_the_place() -> None:
    trace = (
        'Traceback:\n  File "a.py", line 1, in f\n    g()\n  File "b.py", line 2, in g\nError: x\n'
    )
    assert last_frame(trace) == "b.py:2 in g"
    assert last_frame("nothing") is None
