"""Rules about how much a prompt takes of a model's context."""

from collections.abc import Iterator

from evalwright.prompts.document import Prompt
from evalwright.prompts.findings import Hit, Rule
from evalwright.prompts.rules.reading import Reading, read

TOKEN_BUDGET = 4000
_BYTES_PER_TOKEN = 4


def estimated_tokens(reading: Reading) -> int:
    """About how many tokens the core takes: four bytes each."""
    return len(reading.core.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN


def _over_budget(prompt: Prompt) -> Iterator[Hit]:
    reading = read(prompt)
    tokens = estimated_tokens(reading)
    if tokens > TOKEN_BUDGET:
        yield Hit(
            reading.place(0),
            f"The prompt takes about {tokens} tokens, more than {TOKEN_BUDGET}: shorten it or "
            "load parts of it when they are needed.",
        )


RULES = (
    Rule(
        id="PE501",
        name="context-budget",
        severity="warning",
        criterion="clarity",
        summary="A prompt of more than 4,000 tokens, by estimate.",
        explanation=(
            "Long prompts cost more with every call, and instructions in their middle are "
            "followed less. Move reference material out, and drop what changes no answer."
        ),
        check=_over_budget,
    ),
)
