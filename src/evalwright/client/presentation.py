"""How a method that was made from a call looks in help and editors: like a handwritten one."""

import inspect
from collections.abc import Callable
from typing import Any, get_args

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def present(
    method: Callable[..., Any],
    call: Callable[..., Any],
    *,
    skip: int = 0,
    returns: Any = None,
    name: str | None = None,
    words: str | None = None,
) -> None:
    """Give a method the name, the words and, but for the first ones, the parameters of a call."""
    signature = inspect.signature(call)
    result = get_args(signature.return_annotation)[-1] if returns is None else returns
    method.__name__ = name or call.__name__
    method.__doc__ = words or call.__doc__
    method.__module__ = call.__module__
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[_SELF, *list(signature.parameters.values())[skip:]], return_annotation=result
    )
