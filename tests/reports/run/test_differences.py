"""Checks of an answer: those that failed with what they expected and what came."""

from evalwright.contracts.verdicts import CheckResult
from evalwright.reports.formats.console import Style
from evalwright.reports.run.differences import last_frame, render_checks

PLAIN = Style(colour=False)


def test_checks_that_did_not_pass_are_shown_with_what_was_expected_and_came() -> None:
    checks = [
        CheckResult("contains", True, 1.0, "order", "order A-17"),
        CheckResult("number", False, 0.5, 3, 4, "4 is not 3"),
    ]
    assert list(render_checks(checks, PLAIN)) == [
        "      checks    1 of 2 passed",
        "      ○ contains",
        "      ■ number  score 0.5  4 is not 3",
        "        expected  3",
        "        got       4",
    ]


def test_of_a_check_that_raised_the_last_frame_and_the_message_are_shown() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "checks.py", line 4, in is_polite\n'
        '    return tone(output)\n  File "checks.py", line 2, in tone\n    return output["tone"]\n'
        "TypeError: string indices must be integers"
    )
    for check, before in (("python", ""), ("any", "python: ")):
        raised = CheckResult(check, False, 0.0, None, None, before + trace, broken=True)
        assert list(render_checks([raised], PLAIN)) == [
            f"      ■ {check}  {before}TypeError: string indices must be integers",
            '        at        checks.py:2 in tone: return output["tone"]',
        ]


def test_the_last_frame_of_a_trace_names_the_place() -> None:
    trace = (
        'Traceback:\n  File "a.py", line 1, in f\n    g()\n  File "b.py", line 2, in g\nError: x\n'
    )
    assert last_frame(trace) == "b.py:2 in g"
    assert last_frame("nothing") is None
