"""Azure OpenAI: chat completions with another path, another header for the key, and a version."""

from urllib.parse import quote

import msgspec

from evalwright.models import openai
from evalwright.models.endpoints import Endpoint

API_VERSION = "2024-10-21"


def _path(endpoint: Endpoint, model: str) -> str:
    if endpoint.base_url.endswith("/v1"):  # the newer API, which is the same as OpenAI's
        return "/chat/completions"
    version = quote(endpoint.api_version or API_VERSION, safe="")
    deployment = quote(model, safe="")
    return f"/openai/deployments/{deployment}/chat/completions?api-version={version}"


DIALECT = msgspec.structs.replace(
    openai.DIALECT,
    path=_path,
    headers=lambda key: {} if key is None else {"api-key": key},
    quirks=lambda _: openai.OF_OPENAI,
)
