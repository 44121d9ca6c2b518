"""`cites`: the sources that an answer names."""

import re
from collections.abc import Iterator
from typing import Any, Literal

from evalwright.scoring.checks.base import (
    AnswerCheck,
    CheckOutcome,
    Examined,
    Preparing,
    RefusedCheck,
)
from evalwright.scoring.checks.quotes import named
from evalwright.scoring.checks.retrieved import Ids, Share, ids_in, retrieved_ids

_IN_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\](?!\()")  # and no link
_FIELDS = ("sources", "citations", "references", "cites")


class Cites(AnswerCheck):
    """The answer names these `sources`, each as a word of its own; a share of them with `at_least`.
    With `cites: retrieved`, all that it cites was retrieved, by one `tool` if it is named, and it
    cites something: in square brackets, or in the field `sources` or `citations` of an object.
    """

    sources: Ids | Literal["retrieved"]
    at_least: Share = 1.0
    tool: str | None = None

    example = "cites: [refund-policy]"
    cause = "missing_required_data"

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        made = super().of(argument, preparing)
        assert isinstance(made, cls)
        if made.at_least == 0:
            raise RefusedCheck("a share of 0 asks for nothing", "leave it out", "$.at_least")
        if made.tool is not None and made.sources != "retrieved":
            message = "only what was retrieved has a tool"
            raise RefusedCheck(message, "leave it out, or write `sources: retrieved`", "$.tool")
        return made

    def evaluate(self, examined: Examined) -> CheckOutcome:
        cited = list(dict.fromkeys(_cited(examined)))
        if self.sources == "retrieved":
            found = set(retrieved_ids(examined, self.tool))
            if not cited:
                return CheckOutcome(False, 0.0, self.sources, cited, "nothing is cited")
            wrong, named_wrong = [each for each in cited if each not in found], "not retrieved"
            count = len(cited)
        else:
            sources = [str(each) for each in self.sources]
            wrong = [each for each in sources if not _is_named(each, examined.text)]
            named_wrong, count = "not cited", len(sources)
        score = 1 - len(wrong) / count
        passed = score >= self.at_least - 1e-9
        reason = "" if passed else f"{named_wrong}: {named(wrong)}"
        return CheckOutcome(passed, score, self.sources, cited, reason)


def _is_named(source: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(source)}(?![\w-])", text) is not None


def _cited(examined: Examined) -> Iterator[str]:
    if isinstance(examined.output, dict):
        for name in _FIELDS:
            yield from ids_in(examined.output.get(name), are_ids=True)
        return
    for found in _IN_BRACKETS.finditer(examined.text):
        yield from (each.strip() for each in re.split(r"[,;]", found[1]) if each.strip())
