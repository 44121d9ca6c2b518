"""A log of inspect-ai with many samples, each a short conversation with a call of a tool.

Runs inside the environment of inspect-ai: python inspect_ai_log.py FILE SAMPLES
"""

import random
import sys
from datetime import UTC, datetime

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

MODEL = "mockllm/model"
TEXT = (
    "the order has been shipped by the carrier and will arrive on monday at your address please "
    "keep the parcel number for later questions about refunds invoices stock returns"
)
WORDS = TEXT.split()
NOW = datetime.now(UTC).isoformat()


def sample(number: int) -> EvalSample:
    chance = random.Random(number)
    question = f"Where is order A-{number}, sent on day {number % 365}?"
    state = " ".join(chance.choice(WORDS) for _ in range(60))
    said = f"Order A-{number}: {' '.join(chance.choice(WORDS) for _ in range(40))}."
    passed = number % 30 != 0
    call = ToolCall(id=f"call-{number}", function="orders_get", arguments={"id": f"A-{number}"})
    answer = ChatMessageAssistant(content=said if passed else f"I do not know. {said[6:]}")
    messages = [
        ChatMessageUser(content=question),
        ChatMessageAssistant(content="", tool_calls=[call]),
        ChatMessageTool(content=state, tool_call_id=call.id, function=call.function),
        answer,
    ]
    output = ModelOutput.from_message(answer)
    output.model = MODEL
    output.usage = ModelUsage(input_tokens=120, output_tokens=60, total_tokens=180)
    return EvalSample(
        id=f"task-{number:06d}",
        epoch=1,
        input=question,
        target=f"Order A-{number}",
        messages=messages,
        output=output,
        scores={"includes": Score(value="C" if passed else "I", answer=output.completion)},
    )


def main(path: str, count: int) -> None:
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=NOW,
            task="orders",
            dataset=EvalDataset(name="orders", samples=count),
            model=MODEL,
            config=EvalConfig(),
        ),
        results=EvalResults(
            total_samples=count,
            completed_samples=count,
            scores=[
                EvalScore(
                    name="includes",
                    scorer="includes",
                    metrics={"accuracy": EvalMetric(name="accuracy", value=29 / 30)},
                )
            ],
        ),
        stats=EvalStats(started_at=NOW, completed_at=NOW),
        samples=[sample(number) for number in range(count)],
    )
    write_eval_log(log, path)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
