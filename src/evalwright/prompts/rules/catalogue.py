"""The table of rules. A new rule is one entry in the module of its theme."""

from collections.abc import Iterator

from evalwright.prompts.document import Prompt
from evalwright.prompts.findings import Hit, Rule
from evalwright.prompts.rules import (
    contradiction,
    duplicates,
    front_matter,
    safety,
    size,
    structure,
    task,
    variables,
    wording,
)
from evalwright.prompts.rules.suppression import unfit_suppressions


def _unfit_suppressions(prompt: Prompt) -> Iterator[Hit]:
    return unfit_suppressions(prompt, CATALOGUE)


_UNFIT_SUPPRESSION = Rule(
    id="PE503",
    name="unfit-suppression",
    severity="warning",
    criterion="structure",
    summary="A comment that silences rules, but names none that exist, or no reason.",
    explanation=(
        "Write `<!-- prompteval-ignore PE206: why -->` before the line, or "
        "`prompteval-ignore-file` for the whole file. A misspelled rule silences nothing."
    ),
    check=_unfit_suppressions,
)

CATALOGUE: tuple[Rule, ...] = tuple(
    sorted(
        (
            *front_matter.RULES,
            *variables.RULES,
            *task.RULES,
            *wording.RULES,
            *contradiction.RULES,
            *structure.RULES,
            *safety.RULES,
            *size.RULES,
            *duplicates.RULES,
            _UNFIT_SUPPRESSION,
        ),
        key=lambda rule: rule.id,
    )
)
