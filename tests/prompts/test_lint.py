"""Which rules are asked, in which order they answer, how they are silenced, what they repair."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linted import FRONT_MATTER, a_prompt, findings_of, with_front_matter
from msgspec import UNSET

from effort import takes_at_most
from evalwright.contracts.errors import BadInput
from evalwright.prompts.document import UnfitPrompt
from evalwright.prompts.findings import Fix
from evalwright.prompts.lint import (
    ALL_RULES,
    MOST_OF_ONE_RULE,
    apply_fixes,
    fix_prompt,
    lint,
    safe_fixes,
    selection,
)
from evalwright.prompts.rules.rule_table import CATALOGUE

FIXABLE = [rule.id for rule in CATALOGUE if rule.fixable]
MESSY = "Provide several options.\n\nTODO: more\n\nGive a few examples!!!\n"


def rules_of(*names, ignore=()):
    return [rule.id for rule in selection(names, ignore).rules()]


def test_all_rules_are_asked_unless_some_are_selected():
    assert [rule.id for rule in ALL_RULES.rules()] == [rule.id for rule in CATALOGUE]


def test_rules_are_selected_by_id_prefix_or_name():
    assert rules_of("PE206") == rules_of("pe206") == rules_of("vague-quantifier") == ["PE206"]
    assert rules_of("PE40") == ["PE401", "PE402", "PE403", "PE404"]
    assert rules_of("PE206,no-task") == ["PE201", "PE206"]


def test_ignored_rules_are_left_out_of_the_selected_ones():
    assert rules_of("PE40", ignore=["secret", "PE403,PE404"]) == ["PE402"]
    assert "PE302" not in rules_of(ignore=["PE3"])


@pytest.mark.parametrize(
    ("name", "suggestion"), [("vague-quantifer", "vague-quantifier"), ("PE40X", "PE40"), ("zz", "")]
)
def test_an_unknown_rule_is_bad_input_with_a_suggestion(name, suggestion):
    with pytest.raises(BadInput, match=f"--ignore: no rule is called “{name}”.*{suggestion}"):
        selection(ignore=[name])


def test_a_finding_tells_the_line_and_the_column_of_its_words():
    # The first letter of Istanbul in Turkish grows when it is lowered.
    prompt = with_front_matter("Compare İİİİ drafts.\nTODO: say how.\nThen stop. FIXME too.\n")

    found = [each for each in lint([prompt])[0] if each.rule == "PE205"]

    lines = prompt.text.split("\n")
    words = [lines[each.line - 1][each.column - 1 :][:5] for each in found]
    assert words == ["TODO:", "FIXME"]


def test_findings_come_in_the_order_of_the_text_and_the_same_every_time():
    prompt = with_front_matter(MESSY)

    first, second = lint([prompt]), lint([prompt])

    assert first == second
    places = [(each.line, each.column) for each in first[0]]
    assert places == sorted(places)
    assert {"PE205", "PE206", "PE210"} <= {each.rule for each in first[0]}


def test_at_most_twenty_findings_of_a_rule_are_shown_and_the_rest_are_counted():
    shown = findings_of("PE206", with_front_matter("Give a few examples.\n" * 33))
    all_shown = findings_of("PE206", with_front_matter("Give a few examples.\n" * 20))

    assert len(shown) == len(all_shown) == MOST_OF_ONE_RULE == 20
    assert shown[-1].message.endswith("There are 13 more findings of PE206 in this file.")
    assert [each.more for each in shown if each.more is not UNSET] == [13]
    assert not any("more findings" in each.message for each in [*shown[:-1], *all_shown])


def test_each_prompt_gets_its_own_findings():
    dirty, clean = lint([with_front_matter(MESSY), with_front_matter("Sort it as a table.")])

    assert dirty
    assert clean == []


COMMENTS = {
    "the next line": "<!-- prompteval-ignore PE206: ours -->\nProvide several options.",
    "past blank lines": "<!-- prompteval-ignore PE206: ours -->\n\nProvide several options.",
    "its own line": "Provide several options. <!-- prompteval-ignore PE206: ours -->",
    "by name": "<!-- prompteval-ignore vague-quantifier: ours -->\nProvide several options.",
    "several rules": "<!-- prompteval-ignore PE205, PE206: ours -->\nProvide several options.",
    "the file": "<!-- prompteval-ignore-file PE206: ours -->\nSort.\n\nProvide several options.",
    "a prefix": "<!-- prompteval-ignore PE20: ours -->\nProvide several options.",
    "of Jinja": "{# prompteval-ignore PE206: ours #}\nProvide several options.",
    "of Mustache": "{{! prompteval-ignore-file PE206: ours }}\nProvide several options.",
    "of Handlebars": "Provide several options. {{!-- prompteval-ignore PE206: ours --}}",
}


@pytest.mark.parametrize("body", COMMENTS.values(), ids=COMMENTS)
def test_a_comment_silences_rules(body):
    assert findings_of("PE206", with_front_matter(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        "<!-- prompteval-ignore PE205: another rule -->\nProvide several options.",
        "<!-- prompteval-ignore PE206: this line -->\nSort.\n\nProvide several options.",
        "<!-- prompteval-ignore: no rule -->\nProvide several options.",
        "# prompteval-ignore PE206: a heading is no comment\n\nProvide several options.",
    ],
)
def test_a_comment_silences_nothing_else(body):
    assert len(findings_of("PE206", with_front_matter(body))) == 1


def test_yaml_has_its_own_comments():
    text = (
        "name: A\nmessages:\n  - role: user\n    # prompteval-ignore PE206: ours\n"
        "    content: Provide several options.\n"
    )

    assert findings_of("PE206", a_prompt(text, "a.prompt.yml")) == []


REPAIRS = {
    "PE104": ("Greet {{ a }}, {{b}}, {{c}}.", "Greet {{a}}, {{b}}, {{c}}."),
    "PE301": ("Sort.\n\n~~~json\n{}", "Sort.\n\n~~~json\n{}\n~~~\n"),
    "PE302": ("```text\nSort.\n```text\n\n## Tips\n", "```text\nSort.\n```\n\n## Tips\n"),
    "PE306": ("Sort.\n\n##Tips\n\nNone.\n", "Sort.\n\n## Tips\n\nNone.\n"),
    "PE404": ("So\u200brt \u202eit.", "Sort it."),
}


@pytest.mark.parametrize("rule", FIXABLE)
def test_a_repair_changes_the_fault_and_nothing_else(rule):
    before, after = REPAIRS[rule]
    prompt = with_front_matter(before)

    assert fix_prompt(prompt, selection([rule])) == FRONT_MATTER + after


def test_repairs_are_made_for_selected_rules_alone():
    prompt = with_front_matter("##Tips\n\nSo\u200brt it.")

    assert fix_prompt(prompt, selection(["PE404"])) == FRONT_MATTER + "##Tips\n\nSort it."


def test_a_silenced_fault_is_not_repaired():
    prompt = with_front_matter("<!-- prompteval-ignore PE306: a tag -->\n##Tips\n\nSort it.")

    assert fix_prompt(prompt) == prompt.text


def test_code_is_left_as_it_is():
    code = (
        "Greet {{name}} and {{title}}.\n\n```c\n##define A\n```json\n{}\n```\n\n"
        "```yaml\ntoken: ${{ secrets.TOKEN }}\nname: {{ name }}\nzero: \u200b\n```\n"
    )

    assert fix_prompt(with_front_matter(code)) == FRONT_MATTER + code


def test_a_repair_that_would_leave_nothing_is_not_made():
    assert fix_prompt(a_prompt("\u200b")) == "\u200b"


def test_line_ends_of_windows_stay():
    prompt = a_prompt("```text\r\nSort.\r\n```text\r\n\r\n## Tips\r\n\r\n~~~\r\nx")

    assert fix_prompt(prompt) == (
        "```text\r\nSort.\r\n```\r\n\r\n## Tips\r\n\r\n~~~\r\nx\r\n~~~\r\n"
    )


PIECES = st.sampled_from(
    [
        *("```text\n", "```\n", "~~~\n", "````\n", "\n", "##Tips\n", "## Tips\n", "---\n"),
        *("{{ a }} ", "{{a}} ", "{{b }}\n", "a\u200bb ", "Sort it.\n", "- ```\n", "  ```js\n"),
        *("> ```\n", "<!-- prompteval-ignore PE3: why -->\n", "    code\n", "TODO: x\n", "\r\n"),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_to_fix_twice_is_to_fix_once_and_leaves_nothing_to_fix(text):
    try:
        prompt = a_prompt(text)
    except UnfitPrompt:
        return

    fixed = a_prompt(fix_prompt(prompt))

    assert safe_fixes(fixed) == []
    assert fix_prompt(fixed) == fixed.text


@given(st.text(max_size=300))
def test_findings_stand_inside_the_text(text):
    try:
        prompt = a_prompt(text.encode("utf-8", "replace").decode())
    except UnfitPrompt:
        return

    lines = prompt.text.split("\n")
    for finding in lint([prompt])[0]:
        assert 1 <= finding.line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1


FIXES = st.lists(
    st.builds(
        lambda start, length, new: Fix(start, start + length, new),
        st.integers(0, 20),
        st.integers(0, 5),
        st.text("xyz", max_size=3),
    ),
    max_size=8,
)


@given(st.text("abc", min_size=25, max_size=40), FIXES)
def test_what_no_change_touches_stays(text, fixes):
    fixed = apply_fixes(text, fixes)

    first = min((each.start for each in fixes), default=0)
    assert fixed.startswith(text[:first])
    assert fixed.endswith(text[25:])
    assert apply_fixes(text, []) == text


def test_changes_are_made_at_their_places():
    fixes = [Fix(4, 5, "E"), Fix(0, 1, "A"), Fix(0, 3, "overlaps"), Fix(6, 6, "!")]

    assert apply_fixes("abcdef", fixes) == "AbcdEf!"


@pytest.mark.parametrize(
    ("rule", "begin", "repeated", "count"),
    [
        ("PE214", "Return JSON.", '{{"a": {0}, "b": 2,}}\n', 3000),
        (
            "PE211",
            "Du bist ein Assistent.",
            "Immer wort{0} machen tun so.\nNie ganz{0} anders tun so.\n",
            2000,
        ),
    ],
)
def test_a_long_row_of_like_lines_takes_no_longer_for_each_of_them(rule, begin, repeated, count):
    body = f"{begin}\n\n{''.join(map(repeated.format, range(count)))}"
    assert takes_at_most(1.5, lambda: findings_of(rule, with_front_matter(body)))
