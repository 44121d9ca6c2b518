"""Applies the safe changes that rules offer."""

from collections.abc import Iterable

from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.findings import Fix
from evalwright.prompts.lint import ALL_RULES, Selection, safe_fixes
from evalwright.prompts.parse import parse_prompt

_ROUNDS = 10  # a repair can bring another to light, as a closed fence does for a heading below it


def fix_prompt(prompt: Prompt, selected: Selection = ALL_RULES) -> str:
    """The text of a prompt with all safe changes made; to fix it again changes nothing."""
    for _ in range(_ROUNDS):
        text = apply_fixes(prompt.text, safe_fixes(prompt, selected))
        if text == prompt.text:
            break
        try:
            prompt = parse_prompt(text.encode(), prompt.path)
        except UnfitPrompt:
            break  # nothing would be left: the file held invisible characters alone
    return prompt.text


def apply_fixes(text: str, fixes: Iterable[Fix]) -> str:
    """The text with all changes made; of two that overlap, the first one counts."""
    parts = []
    at = 0
    for fix in sorted(set(fixes), key=lambda fix: (fix.start, fix.end, fix.replacement)):
        if fix.start < at:
            continue
        parts += [text[at : fix.start], fix.replacement]
        at = fix.end
    return "".join([*parts, text[at:]])
