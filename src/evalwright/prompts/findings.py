"""Findings of the linter, and what a rule is."""

import inspect
from collections.abc import Callable, Iterable

import msgspec

from evalwright.contracts.prompt_result import Criterion, FindingSeverity
from evalwright.prompts.file_kinds import PromptKind
from evalwright.prompts.rules.prompt_text import Reading


class Fix(msgspec.Struct, frozen=True):
    """A safe change: the text from `start` to `end` (offsets in the file) is replaced."""

    start: int
    end: int
    replacement: str


class Hit(msgspec.Struct, frozen=True):
    """A place where a rule applies: an offset in the file's text, and why."""

    offset: int
    message: str
    fix: Fix | None = None
    more: int = 0  # findings of the same rule that are not listed


Check = Callable[[Reading], Iterable[Hit]]

# What a model answers; a coding agent's rules and skills are kept in mind while it does other work.
ANSWERED: frozenset[PromptKind] = frozenset(("library_page", "system_prompt", "template", "chat"))


class Rule(msgspec.Struct, frozen=True):
    """One rule of the catalogue."""

    id: str  # PE and three digits
    name: str  # kebab-case
    severity: FindingSeverity
    criterion: Criterion
    summary: str  # one line
    explanation: str  # why it matters, and what to do, with an example
    check: Check
    fixable: bool = False
    # For a rule that compares prompts: gives a check that remembers the prompts of one library.
    library_check: Callable[[], Check] | None = None
    kinds: frozenset[PromptKind] | None = None  # the files it is about; None is all
    english: bool = False  # it knows English words, and is silent elsewhere

    def is_about(self, reading: Reading) -> bool:
        if self.english and not reading.language.is_english:
            return False
        return self.kinds is None or reading.prompt.kind in self.kinds


def rule(
    id: str,  # noqa: A002 - as the field is called
    severity: FindingSeverity,
    criterion: Criterion,
    *,
    fixable: bool = False,
    kinds: frozenset[PromptKind] | None = None,
    english: bool = False,
) -> Callable[[Check], Rule]:
    """Make a rule of a check: its docstring is the summary, an empty line and the explanation.

    The rule is called as the check is, with hyphens.
    """

    def rule_of(check: Check) -> Rule:
        summary, _, explanation = inspect.cleandoc(check.__doc__ or "").partition("\n\n")
        return Rule(
            id=id,
            name=check.__name__.replace("_", "-"),
            severity=severity,
            criterion=criterion,
            summary=summary,
            explanation=" ".join(explanation.split()),
            check=check,
            fixable=fixable,
            kinds=kinds,
            english=english,
        )

    return rule_of
