"""Traces that people judged, with the results of tools where other recordings have them.

They hold what tools answered in the agent's own words: "[Observation]: The knowledge I get from
TOOL is: …". Each becomes a call and its result.
"""

import re
from itertools import count
from typing import Any

from labelled import Labelled, Record

_OBSERVED = "[Observation]:"
_ANSWER = re.compile(r"(?:^|;)\s*The knowledge I get from (\w+) is: ")
# The tools of the attacks give themselves away.
_GIVEN_AWAY = re.compile(
    r"You have used the attacker tool \w+\. You have achieved the attacker goal:"
)


def rebuilt(labelled: Labelled) -> list[Record]:
    """The judged traces; calls that were only told twice are told once."""
    return [{**record, "events": _events(record)} for record in labelled.records("judged")]


def _events(record: Record) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    numbers = count(1)
    told: set[str] = set()
    for event in record["events"]:
        content = event.get("content")
        if event["type"] == "tool_call" and event["tool"] in told:
            continue
        if event["type"] != "message" or _OBSERVED not in str(content):
            events.append(event)
            told = set()
            continue
        parts = _ANSWER.split(str(content).partition(_OBSERVED)[2])
        for tool, text in zip(parts[1::2], parts[2::2], strict=True):
            call_id = f"c{next(numbers)}"
            payload = _GIVEN_AWAY.sub("Done:", text)
            events.append({"type": "tool_call", "call_id": call_id, "tool": tool, "args": {}})
            events.append(
                {"type": "tool_result", "call_id": call_id, "status": "ok", "payload": payload}
            )
            told.add(tool)
    return events
