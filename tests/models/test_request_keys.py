"""The key of a call: the same wherever it is computed, another for whatever changes the answer."""

import hashlib

import msgspec
import pytest
from asking import a_request
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import requests

from evalwright.contracts.jsonvalue import canonical
from evalwright.models.protocol import ChatMessage, OutputSchema, Request, ToolSpec
from evalwright.models.request_key import RequestKeys, semantic_call


def key(request: Request, name: str = "openai:m") -> str:
    return RequestKeys(name).key(request)


def test_the_key_is_the_hash_of_the_portable_canonical_text() -> None:
    text = (
        '{"model":"m","provider":"openai","recipe":"openwop-semantic-request-v2","request":'
        '{"messages":[{"content":"Grüße","role":"user"}],"seed":3,"stop":["x"],"temperature":1}}'
    )
    asked = Request((ChatMessage("user", "Grüße"),), temperature=1.0, seed=3, stop=("x",))
    assert key(asked) == hashlib.sha256(text.encode()).hexdigest()


@given(st.lists(requests(), max_size=4))
def test_the_text_is_canonical_json_for_every_request_in_turn(asked: list[Request]) -> None:
    keys = RequestKeys("ollama:llama3.2:3b")
    for request in [*asked, *asked]:
        assert keys.text(request) == canonical(semantic_call("ollama:llama3.2:3b", request))
    for request in asked:
        turned = msgspec.structs.replace(request, tools=tuple(reversed(request.tools)))
        assert key(turned) == key(request), "the order of tools does not matter"


@pytest.mark.parametrize(
    "other",
    [
        a_request("other"),
        a_request(temperature=0.5),
        a_request(max_tokens=5),
        a_request(seed=1),
        a_request(stop=("x",)),
        a_request(top_logprobs=1),
        a_request(output=OutputSchema("o", {})),
        a_request(tools=(ToolSpec("t", "", {}),)),
    ],
)
def test_everything_that_may_change_the_answer_changes_the_key(other: Request) -> None:
    keys = RequestKeys("openai:m")
    assert keys.key(other) != keys.key(a_request())


def test_another_provider_or_model_is_another_key() -> None:
    names = ["openai:m", "azure:m", "openai:n"]
    assert len({key(a_request(), name) for name in names}) == 3
