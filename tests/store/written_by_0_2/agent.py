import os
import time


def answer(task):
    question = task.input["question"]
    if question == "slow":
        if os.environ.get("HANG"):
            time.sleep(60)
        return "done"
    if question == "json":
        return {"a": [1, True]}
    if "order" in question:
        return f"It is {task.call_tool('shop:orders.get', {'id': 'A-17'})['status']}."
    return "Hi."
