"""Complexity is counted by a fixed formula, and separates."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.prompts.complexity import (
    CONSTRAINT_WORDS,
    EXAMPLE_WORDS,
    TIERS,
    WEIGHTS,
    Counts,
    complexity,
    count,
)
from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.parse import parse_prompt
from evalwright.prompts.sources import discover, read_prompt

LIBRARY = Path(__file__).parents[3] / "shared/data/prompts/library/prompts"
DOCUMENT = Path(__file__).parents[2] / "docs/prompt-files.md"

RICH = """\
# Review a contract

You must cite a clause for every claim. Never guess; do not give legal advice.

## Steps

1. Read {{contract}}.
2. List at least three risks for [PARTY].

## Example

```text
# Risk
- Clause 4: only one party may end the contract.
```

```python
# no heading
- 1
```
"""


def parse(text: str) -> Prompt:
    return parse_prompt(text.encode(), "a.md")


def test_each_thing_is_counted_and_code_is_not():
    counts = count(parse(RICH))
    assert counts == Counts(
        words=len(RICH.split()),
        steps=3,
        constraints=5,  # must, never, do not, at least, only
        variables=2,
        sections=4,
        examples=1,
    )


def test_constraints_and_examples_are_counted_in_the_language_of_the_prompt():
    german = count(parse("Fasse den Text zusammen und nenne niemals Namen. Zum Beispiel: Umzug.\n"))
    chinese = count(parse("请总结下面的文本，不要写出姓名，必须用一句话。例如：搬家。\n"))

    assert (german.constraints, german.examples) == (1, 1)
    assert chinese.constraints >= 2
    assert chinese.examples >= 1


def test_the_score_is_the_documented_sum():
    counts = count(parse(RICH))
    parts = [
        weight * number / (number + half)
        for (weight, half), number in (
            (WEIGHTS[name], getattr(counts, name)) for name in Counts.__struct_fields__
        )
    ]
    assert complexity(parse(RICH)).score == round(100 * sum(parts), 1)
    assert sum(weight for weight, _ in WEIGHTS.values()) == pytest.approx(1)


def test_a_line_is_simple_and_a_long_procedure_is_not():
    assert complexity(parse("Translate {{text}} into French.\n")).tier == "simple"
    steps = "".join(
        f"## Part {n}\n\n1. You must check [ITEM_{n}] as in the example.\n" for n in range(60)
    )
    assert complexity(parse(steps)).tier == "reasoning"


@given(st.sampled_from(["word", "- step", "Never do it.", "{{name}}", "# Part", "For example"]))
def test_more_of_anything_is_never_less_complex(more):
    assert complexity(parse(f"{RICH}\n{more}\n")).score >= complexity(parse(RICH)).score


def test_the_documentation_states_the_weights_and_the_bars():
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, (weight, half) in WEIGHTS.items():
        assert f"| {name} | {weight:.2f} | {half:g} |" in text
    for bar, tier in TIERS:
        assert f"| `{tier}` | {bar:g} |" in text


@pytest.mark.skipif(not LIBRARY.is_dir(), reason="the prompt library is not on this machine")
def test_no_tier_holds_more_than_half_of_a_real_library():
    tiers: Counter[str] = Counter()
    unfit = 0
    for found in discover([LIBRARY]):
        try:
            tiers[complexity(read_prompt(found)).tier] += 1
        except UnfitPrompt:
            unfit += 1
    assert (tiers.total(), unfit) == (192, 0)
    assert max(tiers.values()) <= tiers.total() / 2
    assert len(tiers) == len(TIERS)


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "must",
                    "**must:**",
                    "musty",
                    "only,",
                    "(only)",
                    "e.g",
                    "(e.g",
                    "e.g.",
                    "examples",
                ),
                *("**sample**", "sampled", "must;;", "mandatory:**", "mandatory:**x", "é", "a"),
                *(" ", "\n", "\t", "\x0b", "\x0c", "\x1c", "\u00a0", "  "),
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_words_are_what_spaces_set_apart_and_counted_as_a_whole(text):
    words = f"x {text}".encode().lower().split()
    counted = count(parse_prompt(f"x {text}".encode(), "a.md"))
    ends = ("", ",", ".", ":", ";", "**", ":**")

    def occurrences(listed):
        spelled = {f"{mark}{each}{end}" for each in listed for mark in ("", "**") for end in ends}
        return sum(word.decode() in spelled for word in words)

    assert counted.words == len(words)
    assert counted.constraints == occurrences(CONSTRAINT_WORDS)
    assert counted.examples == occurrences(EXAMPLE_WORDS)
