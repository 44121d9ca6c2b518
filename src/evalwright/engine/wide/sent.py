"""Wide suites that were sent to a host, for a process that is ended if they take too long."""

import msgspec

from evalwright.contracts.documents import parse_json
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.suite import Suite


class Lowered(msgspec.Struct, frozen=True):
    """A suite as a run takes it, or what is wrong with it."""

    suite: Suite | None = None
    problems: list[Problem] = []


class SentSuite(msgspec.Struct, frozen=True):
    """The JSON of a wide suite, of which neither code nor files are used."""

    source: bytes
    name: str

    def lowered(self) -> Lowered:
        """Its tasks; what their templates do is bounded by nothing but the end of the process."""
        from evalwright.engine.wide.loader import load_wide

        try:
            return Lowered(load_wide(parse_json(self.source, self.name), name=self.name).suite)
        except InvalidDocument as error:
            return Lowered(problems=error.problems)
