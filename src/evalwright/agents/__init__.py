"""Ways to invoke a subject: Python callable, HTTP endpoint, command; fixtures and memory.

What an agent's author may want by name: `AgentTask` for annotations (called `Task` before 0.3),
`ToolError` to catch a tool call that has no result. `import evalwright` offers both, too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalwright.agents.python import AgentTask
    from evalwright.agents.toolbox import ToolError

    Task = AgentTask

__all__ = ["AgentTask", "Task", "ToolError"]


def __getattr__(name: str) -> Any:
    if name == "ToolError":
        from evalwright.agents.toolbox import ToolError

        return ToolError
    if name in ("AgentTask", "Task"):
        from evalwright.agents.python import AgentTask

        return AgentTask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
