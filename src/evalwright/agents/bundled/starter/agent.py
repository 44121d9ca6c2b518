"""A small agent: any callable that takes the task and returns its output."""

from typing import Any


def answer(task: Any) -> Any:
    """Answer one question of a customer."""
    question = task.input["question"].lower()
    if "order" in question:
        order = task.call_tool("shop:orders.get", {"id": task.input["orderId"]})
        return f"Your order {order['id']} is {order['status']}."
    if "who am i" in question:
        return {"customer": task.memory.get("customer")["content"]}
    return "Hello! Ask me about your order."
