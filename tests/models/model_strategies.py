"""Arbitrary requests, and JSON that is nearly a provider's answer."""

from typing import Any

from hypothesis import strategies as st

from evalwright.models.protocol import ChatMessage, OutputSchema, Request, ToolSpec, ToolUse

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
FIELDS = [
    "choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "usage",
    "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "type", "text", "input",
    "stop_reason", "finish_reason", "refusal", "logprobs", "token", "error", "code",
]  # fmt: skip
json_values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | texts, inner, max_size=5)
    ),
    max_leaves=20,
)
schemas = st.sampled_from(
    [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "integer"}}},
        {"type": "boolean"},
        {},
    ]
)
uses = st.builds(ToolUse, names, names, texts | st.just('{"a":1}'))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A conversation in which every tool that was asked for has answered."""
    messages = [
        ChatMessage("system", draw(texts)),
        ChatMessage("user", draw(texts.filter(str.strip))),
    ]
    for number in range(draw(st.integers(0, 2))):
        asked = tuple(
            ToolUse(f"c{number}_{index}", use.name, use.arguments)
            for index, use in enumerate(draw(st.lists(uses, max_size=3)))
        )
        messages.append(ChatMessage("assistant", draw(texts), asked))
        messages += (ChatMessage("tool", draw(texts), call_id=use.call_id) for use in asked)
    return Request(
        tuple(messages),
        tuple(ToolSpec(name, "", {"type": "object"}) for name in draw(st.sets(names, max_size=2))),
        draw(st.none() | st.builds(OutputSchema, texts, schemas)),
        draw(st.none() | st.floats(0, 2)),
        draw(st.none() | st.integers(1, 9999)),
        draw(st.none() | st.integers(0, 9999)),
        tuple(draw(st.lists(names, max_size=2))),
        draw(st.none() | st.integers(0, 5)),
        draw(st.none() | st.floats(0, 1)),
    )
