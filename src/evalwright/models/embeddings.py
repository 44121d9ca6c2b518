"""Embeddings: a text as a vector, by the protocol of OpenAI.

A model of embeddings is asked like any other: the request is the text, and the reply is the vector
as JSON. So limits, retries, prices and cassettes hold for it too.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from evalwright.contracts.errors import BadInput
from evalwright.models.dialects import HttpDialect
from evalwright.models.prices import Meter, Tokens
from evalwright.models.protocol import ChatMessage, ModelError, Reply, Request
from evalwright.models.quirks import Quirks

_CHAT, _EMBEDDINGS = "/chat/completions", "/embeddings"


class _Embedding(msgspec.Struct, gc=False):
    embedding: Annotated[list[float], Meta(min_length=1)]


class _EmbeddingUsage(msgspec.Struct, gc=False):
    prompt_tokens: Annotated[int, Meta(ge=0)] | None = None


class _Embeddings(msgspec.Struct, gc=False):
    data: Annotated[list[_Embedding], Meta(min_length=1)]
    usage: _EmbeddingUsage | None = None


_DECODER = msgspec.json.Decoder(_Embeddings)
_VECTOR = msgspec.json.Decoder(Annotated[list[float], Meta(min_length=1)])


def embedding_request(text: str) -> Request:
    """The request for the vector of a text."""
    return Request((ChatMessage("user", text),))


def vector_of(reply: Reply, name: str) -> list[float]:
    """The vector in a reply; raises `ModelError`."""
    try:
        vector: list[float] = _VECTOR.decode(reply.text)
    except msgspec.DecodeError as error:
        message = f"{name}: the reply is no vector: {error}"
        raise ModelError("parse_error", message) from None
    return vector


def embedding_dialect(dialect: HttpDialect, provider: str) -> HttpDialect:
    """How embeddings are asked for where chat completions are; raises `BadInput` elsewhere."""
    from evalwright.models.endpoints import Endpoint

    def path(endpoint: Endpoint, model: str) -> str:
        chat = dialect.path(endpoint, model)
        if _CHAT not in chat:
            raise BadInput(
                f"provider {provider} offers no embeddings; name a model of one that speaks the "
                "protocol of OpenAI, such as openai:text-embedding-3-small"
            )
        return chat.replace(_CHAT, _EMBEDDINGS)

    return msgspec.structs.replace(dialect, path=path, encode=_encode, decode=_decode)


def _encode(request: Request, model: str, _quirks: Quirks) -> bytes:
    return msgspec.json.encode({"model": model, "input": request.messages[0].content})


def _decode(body: bytes, _request: Request, meter: Meter) -> Reply:
    try:
        found = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError("parse_error", f"not an answer with embeddings: {error}") from None
    sent = found.usage.prompt_tokens if found.usage else None
    usage = meter.usage(None if sent is None else Tokens(sent, 0))
    return Reply(msgspec.json.encode(found.data[0].embedding).decode(), "stop", usage)
