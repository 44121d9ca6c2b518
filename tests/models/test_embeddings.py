"""Models of embeddings: asked like other models, at another path, and recorded like them."""

import asyncio
import json
from pathlib import Path

import pytest

from evalwright.contracts.errors import BadInput
from evalwright.engine.session import ModelPool
from evalwright.models.config import Config, ProviderSettings
from evalwright.models.embeddings import embedding_request, vector_of
from providers import Answer, fake_provider

VECTOR = [0.25, -0.5, 1.0]
EMBEDDED = Answer(
    json.dumps({"data": [{"embedding": VECTOR}], "usage": {"prompt_tokens": 4}}).encode()
)
NAME = "own:embed-small"


def ask(pool: ModelPool, text: str = "shipped") -> list[float]:
    async def once() -> list[float]:
        try:
            model = pool.load_embedder(NAME)
            reply = await model.ask(embedding_request(text))
            assert reply.usage.input_tokens == 4
            return vector_of(reply, model.name)
        finally:
            await pool.close()

    return asyncio.run(once())


def test_a_text_is_sent_to_the_embeddings_of_a_provider() -> None:
    with fake_provider(EMBEDDED) as provider:
        config = Config({"own": ProviderSettings("openai", base_url=provider.url)})
        assert ask(ModelPool(config)) == VECTOR
    (call,) = provider.calls
    assert call.path.endswith("/embeddings")
    assert call.body == {"model": "embed-small", "input": "shipped"}


def test_a_vector_is_recorded_and_played_back_without_a_provider(tmp_path: Path) -> None:
    tape = tmp_path / "calls.jsonl"
    with fake_provider(EMBEDDED) as provider:
        config = Config({"own": ProviderSettings("openai", base_url=provider.url)})
        ask(ModelPool(config, tape, record=True))
    assert ask(ModelPool(config, tape)) == VECTOR


def test_a_provider_without_embeddings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-0123456789")
    with pytest.raises(BadInput, match="anthropic offers no embeddings"):
        ModelPool(Config()).load_embedder("anthropic:claude")
