"""Judges that say what a test wants them to say."""

import json
from collections.abc import Callable
from typing import Any

from evalwright.engine.judges import Panel
from evalwright.engine.task_work import RunResources
from evalwright.models.protocol import ModelError, Request
from evalwright.models.scripted import ScriptedModel

JUDGE = "scripted:judge"


class Judge:
    """A judge with a rule from what it is shown to its verdicts; it counts its calls."""

    def __init__(self, verdict: Callable[[str, str], bool], name: str = JUDGE) -> None:
        self.name = name
        self.asked = 0
        self.broken = False
        self._verdict = verdict

    def panel(self) -> RunResources:
        """A panel of this judge alone."""
        return RunResources(panel=Panel([self.model()]))

    def model(self) -> ScriptedModel:
        """The judge as a model."""
        return ScriptedModel(self.name, self._say)

    def _say(self, request: Request) -> str:
        self.asked += 1
        if self.broken:
            raise ModelError("unavailable_model", "nobody is there")
        shown = request.messages[-1].content
        assert request.output is not None
        names = request.output.schema["required"]
        return json.dumps({name: self._entry(name, shown) for name in names})

    def _entry(self, name: str, shown: str) -> dict[str, Any]:
        return {"reason": f"because of {name}", "met": self._verdict(name, shown)}


def a_judge(**met: bool) -> Judge:
    """A judge that finds just these questions met, whatever it is shown."""
    return Judge(lambda name, _: met.get(name, False))
