"""What in a trace would come out differently next time, although the agent were the same."""

import re
from functools import lru_cache

from evalwright.trace.model import Trace
from evalwright.trace.pairing import pair_results

_HTTP = frozenset({"http", "https", "fetch", "browse", "browser", "web", "url", "webpage", "curl"})
_TIME = frozenset({"now", "time", "today", "date", "day", "clock", "datetime"})
_RANDOM = frozenset({"random", "uuid", "shuffle", "sample"})
_WORDS = re.compile(r"[a-z]+|[A-Z][a-z]*")


def nondeterminism_sources(trace: Trace, *, repeats_disagree: bool = False) -> tuple[str, ...]:
    """The sources of chance in one side, each once, in order."""
    found = set().union(*map(_of_tool, {call.tool for call in trace.calls}))
    if repeats_disagree:
        found.add("sampling")
    if trace.failure is not None:
        found.add("transport")
    if None in [retrieval.content for retrieval in trace.retrievals]:
        found.add("unrecorded_retrieval")
    if len(trace.calls) > len(pair_results(trace)):
        found.add("unrecorded_tool_result")
    return tuple(sorted(found))


@lru_cache(maxsize=4096)
def _of_tool(tool: str) -> tuple[str, ...]:
    words = {word.lower() for word in _WORDS.findall(tool[:200])}
    named = (("external_http", _HTTP), ("time", _TIME), ("randomness", _RANDOM))
    return tuple(source for source, names in named if words & names)
