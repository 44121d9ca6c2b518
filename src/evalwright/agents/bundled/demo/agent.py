"""The agent behind `make demo`: a support desk without a model, with one honest mistake.

It reads the policy but never its part for members, so one task of the suite fails.
"""

import re
from typing import Any


async def answer(task: Any) -> Any:
    """Answer a customer's question."""
    question = task.input["question"]
    task.report_usage(
        provider="demo",
        model="rules-1",
        input_tokens=len(question.split()),
        output_tokens=12,
        cost_usd=0.0004,
    )
    order = re.search(r"order ([A-Z]-\d+)", question)
    if order:
        return await _order_status(task, order[1], twice="twice" in question)
    if "return" in question:
        policy = await task.call_tool("shop:policy.lookup", {"topic": "returns"})
        return policy["text"]
    if "contact" in question:
        return {"consent": True, "channel": task.memory.get("contact")["content"]}
    return "Good morning! How can I help with your order?"


async def _order_status(task: Any, number: str, *, twice: bool) -> str:
    order = await task.call_tool("shop:orders.get", {"id": number})
    if order is None:
        return f"I am sorry, I cannot find order {number}."
    if not twice:
        return f"Order {number} was {order['status']} on {order['date']}."
    again = await task.call_tool("shop:orders.get", {"id": number})
    return (
        f"Order {number} is {order['status']}. "
        f"I looked again: it was {again['status']} on {again['date']}."
    )
