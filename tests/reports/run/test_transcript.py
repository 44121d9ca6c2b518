"""A conversation on a console: who said what, what failed at its place, and a bounded length."""

from evalwright.reports.design.talk import FailedCheck, Remark, TalkStep
from evalwright.reports.formats.console import Style, width
from evalwright.reports.run.transcript import render_transcript

PLAIN = Style(colour=False)


def a_call(number: int, **more: object) -> TalkStep:
    return TalkStep("call", f"s{number}", name=f"tool-{number}", args="{}", returned="1", **more)


def test_a_failed_check_and_a_finding_stand_at_their_step() -> None:
    steps = [
        TalkStep("user", "asked", "Where is it?", by="User"),
        a_call(1, bad=True, is_open=True, findings=[Remark("critical", "A key leaked")]),
        TalkStep("agent", "s2", "No idea.", by="desk", failed=[FailedCheck("contains", "no A-17")]),
        TalkStep("user", "turn2", "Thanks.", by="User"),
        TalkStep("agent", "s3", "Bye.", by="desk"),
    ]
    lines = render_transcript(steps, PLAIN)
    assert lines == [
        *("", "  User", "    Where is it?", "    ■ tool-1 {}", "    → 1"),
        "    ■ critical: A key leaked",
        *("", "  desk", "    No idea.", "    ■ contains  no A-17", "", "  User", "    Thanks."),
        *("", "  desk", "    Bye."),
    ]
    alone = render_transcript(steps[:3], PLAIN)
    assert alone[-1] == "    No idea.", "the checks follow below"


def test_a_long_text_is_cut_unless_all_of_it_is_wanted() -> None:
    steps = [TalkStep("agent", "s1", "\n".join(f"line {n}" for n in range(50)), by="desk")]
    short, full = (render_transcript(steps, PLAIN, full=full) for full in (False, True))
    assert short[-2:] == ["    line 11", "    … 38 more lines: --full"]
    assert full[-1] == "    line 49"


def test_of_very_many_steps_the_first_the_last_and_the_failed_are_shown() -> None:
    steps = [a_call(n, bad=n == 500, is_open=n == 500) for n in range(1000)]
    text = "\n".join(render_transcript(steps, PLAIN))
    assert [f"tool-{n} " in text for n in (0, 29, 30, 500, 969, 970, 999)] == [
        *(True, True, False, True, False, True, True)
    ]
    assert "… 470 more steps: --full" in text
    assert "… 469 more steps: --full" in text
    assert "more steps" not in "\n".join(render_transcript(steps, PLAIN, full=True))
    assert all(width(line) <= 80 for line in text.splitlines())
