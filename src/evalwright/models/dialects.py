"""How providers are spoken to: each file of a dialect exports one of these as `DIALECT`."""

import importlib
from collections.abc import Callable

import msgspec

from evalwright.models.config import ProviderSettings
from evalwright.models.endpoints import Endpoint
from evalwright.models.prices import Meter
from evalwright.models.protocol import Model, Reply, Request
from evalwright.models.quirks import Quirks


class HttpDialect(msgspec.Struct, frozen=True):
    """A provider that is called over HTTP: pure functions, from a request to a reply."""

    encode: Callable[[Request, str, Quirks], bytes]  # the body of a call; the text is the model
    decode: Callable[[bytes, Request, Meter], Reply]  # raises `ModelError`
    path: Callable[[Endpoint, str], str]  # what follows the address
    headers: Callable[[str | None], dict[str, str]]  # with the key, if there is one
    quirks: Callable[[Endpoint], Quirks]  # those known before the first call


class LocalDialect(msgspec.Struct, frozen=True):
    """A provider whose models answer on this machine; raises `BadInput` for a bad name."""

    load: Callable[[str, Meter, ProviderSettings], Model]


def load_dialect(name: str) -> HttpDialect | LocalDialect:
    """The dialect that the module of this name exports."""
    dialect: HttpDialect | LocalDialect = importlib.import_module(
        f"evalwright.models.{name}"
    ).DIALECT
    return dialect
