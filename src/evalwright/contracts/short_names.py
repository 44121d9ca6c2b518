"""Suites and agents as people call them; the ids that these names come from stay what they are."""

import re

_LOCAL_SUITE = re.compile(r"local\.(?:[\w-]+\.)*evals\.(?=.)")
_FIRST_VERSION = "@0.0.0"  # of a suite whose file names none
_FUNCTION = re.compile(r"([^.:]+)\.py:([^.:]+)")
_PORT = re.compile(r"^(.*[^\d.].*|\d+(?:\.\d+){3})\.(\d+)$")


def suite_name(suite: str) -> str:
    """The name of a local suite, by its id, or its id and version; of any other, what is given."""
    local = _LOCAL_SUITE.match(suite)
    if local is None:
        return suite
    return suite[local.end() :].removesuffix(_FIRST_VERSION)


def function_id(source: str, name: str) -> str:
    """The id of a function in a file or a module that gives itself none."""
    stem = re.split(r"[\\/]", source)[-1].removesuffix(".py") if source.endswith(".py") else source
    return f"local.{stem}.{name}"


def agent_name(agent_id: str, ref: str = "") -> str:
    """What an agent is called whose id was made from its reference; else its id.

    A function is called as one names it to run it, without the folders: `agent.py:answer`.
    """
    kind, _, rest = agent_id.removeprefix("local.").partition(".")
    if not agent_id.startswith("local.") or not rest:
        return agent_id
    if kind == "http":
        return _PORT.sub(r"\1:\2", rest)
    if kind == "cmd":
        return f"cmd:{rest}"
    source, _, name = ref.rpartition(":")
    if not source or function_id(source, name) != agent_id:
        return agent_id
    file = re.split(r"[\\/]", source)[-1] if source.endswith(".py") else source
    return f"{file}:{name}"


def agent_id_of(given: str) -> str:
    """The id of the agent that somebody means by its name, or by its id."""
    return _FUNCTION.sub(r"local.\1.\2", given) if _FUNCTION.fullmatch(given) else given
