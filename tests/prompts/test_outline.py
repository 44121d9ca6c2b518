"""Sections, steps and examples count alike, however they are marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.prompts.outline import outline_of


@pytest.mark.parametrize(
    "text",
    [
        "# Task\nSort them.\n\n# Output\nA list.\n",
        "<task>\nSort them.\n</task>\n<output>\nA list.\n</output>\n",
        "**Task:**\nSort them.\n\n**Output:**\nA list.\n",
        "**Task**\nSort them.\n\n**Output**\nA list.\n",
        "Task:\nSort them.\n\nOutput:\nA list.\n",
        "[Task]\nSort them.\n[Output]\nA list.\n",
        "=== Task ===\nSort them.\n=== Output ===\nA list.\n",
        "{% block task %}\nSort them.\n{% block output %}\nA list.\n",
        "【task】\nSort them.\n【output】\nA list.\n",
    ],
)
def test_sections_are_found_however_they_are_marked(text):
    sections = outline_of(text).sections
    assert [each.key for each in sections] == ["task", "output"]
    assert "Sort them." in text[sections[0].body : sections[0].end]
    assert "A list." not in text[sections[0].body : sections[0].end]


@pytest.mark.parametrize(
    "marks",
    [
        ("1.", "2."),
        ("1)", "2)"),
        ("Step 1:", "Step 2:"),
        ("**1.", "**2."),
        ("①", "②"),
        ("1、", "2、"),
        ("第一步", "第二步"),
        ("Шаг 1.", "Шаг 2."),
    ],
)
def test_steps_are_found_however_they_are_numbered(marks):
    text = "".join(f"{mark} Read it.\n" for mark in marks)
    assert len(outline_of(text).steps) == len(marks)


@pytest.mark.parametrize(
    "text",
    [
        "## Example\nA short one.\n",
        "<example>\n<question>1 + 1</question>\n</example>\n",
        "Input: good film\nOutput: positive\n",
        "Q: 1 + 1\nA: 2\n",
        "## 示例\n一个例子。\n",
        "## Beispiele\nEin kurzes.\n",
        "## Пример\nКороткий.\n",
    ],
)
def test_examples_are_found_however_they_are_shown(text):
    assert outline_of(text).examples


@pytest.mark.parametrize(
    "text",
    ["Please read this with great care, and then answer:\n", "<div>\nplain\n</div>\n", "a <b> c\n"],
)
def test_sentences_and_markup_are_no_sections(text):
    assert outline_of(text).sections == ()


@given(st.text("ab \n-*#<>/:：1.[]{%}【】", max_size=100))
def test_parts_lie_within_the_text(text):
    found = outline_of(text)
    for part in (*found.sections, *found.steps, *found.items, *found.examples):
        assert 0 <= part.start <= part.body <= part.end <= len(text)


@pytest.mark.parametrize("text", ["<a1>\n" * 20_000 + "</a1>", "input:\n" * 20_000, "a:" * 50_000])
def test_text_made_to_be_slow_is_outlined_as_any_other(text):
    assert outline_of(text) is not None
