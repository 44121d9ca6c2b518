"""Prompts as text, and what the linter says of them."""

from evalwright.contracts.prompt_result import Finding
from evalwright.prompts.document import Prompt
from evalwright.prompts.lint import lint, selection
from evalwright.prompts.parse import parse_prompt

FRONT_MATTER = "---\ntitle: Reviewer\ndescription: Reviews a change.\n---\n"


def a_prompt(text: str, path: str = "prompts/dev/review.md") -> Prompt:
    """A parsed prompt."""
    return parse_prompt(text.encode("utf-8", "surrogatepass"), path)


def with_front_matter(body: str) -> Prompt:
    """A prompt of which only the body is of interest."""
    return a_prompt(FRONT_MATTER + body)


def findings_of(rule: str, prompt: Prompt) -> list[Finding]:
    """What one rule finds in a prompt."""
    return lint([prompt], selection([rule]))[0]
