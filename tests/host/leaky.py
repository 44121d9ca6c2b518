"""An agent that puts whatever it is given into everything it says."""

from typing import Any


async def answer(task: Any) -> str:
    """Repeat input, memory and tool results; fail where the input says so."""
    if "fail" in task.input:
        raise ConnectionError(f"cannot reach {task.input}")
    looked_up = await task.call_tool("shop:orders.get", {"note": task.input})
    remembered = [entry["content"] for entry in task.memory]
    task.report_usage(provider="acme", model="m-1", input_tokens=3, output_tokens=2, cost_usd=0.01)
    return f"{task.input} {looked_up} {remembered}"
