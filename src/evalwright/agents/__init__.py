"""Ways to invoke a subject: Python callable, HTTP endpoint, command; fixtures and memory.

What an agent's author may want by name: `Task` for annotations, `ToolError` to catch a tool call
that has no result.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalwright.agents.protocol import ToolError
    from evalwright.agents.python import Task

__all__ = ["Task", "ToolError"]


def __getattr__(name: str) -> Any:
    """Load the public names when they are asked for."""
    if name == "ToolError":
        from evalwright.agents.protocol import ToolError

        return ToolError
    if name == "Task":
        from evalwright.agents.python import Task

        return Task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
