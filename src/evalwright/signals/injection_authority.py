"""What the user's own words ask for: a call that they cover needs no other explanation."""

from functools import cached_property

from evalwright.signals.injection_fit import Tool, stems_of
from evalwright.signals.instruction_words import (
    DIRECTIVE,
    ENTRUSTS,
    OWN_LIST,
    REFERS,
    VERB_KINDS,
)
from evalwright.signals.provenance_values import plain_words


class Authority:
    """The requests of a user."""

    def __init__(self, requests: str) -> None:
        self._requests = requests
        self._raw = requests.encode("utf-8", "replace")

    def covers(self, tool: Tool) -> bool:
        """Whether the user asks for what the tool does, or hands it over to the content."""
        if self._entrusts:
            return True
        if tool.kind not in self._kinds:
            return False
        return not tool.stems.isdisjoint(self._stems) or REFERS.search(self._raw) is not None

    @cached_property
    def _entrusts(self) -> bool:
        # "Do the following tasks: …" is the user's own list; "do the tasks in the mail" is not.
        return any(not OWN_LIST.search(match.group()) for match in ENTRUSTS.finditer(self._raw))

    @cached_property
    def _kinds(self) -> frozenset[str]:
        verbs = {match.group().lower().split()[-1] for match in DIRECTIVE.finditer(self._raw)}
        return frozenset(VERB_KINDS[verb] for verb in verbs if verb in VERB_KINDS)

    @cached_property
    def _stems(self) -> frozenset[bytes]:
        return stems_of(frozenset(plain_words(self._requests).split()))
