"""From the reference of an agent to the agent."""

from pathlib import Path
from typing import TYPE_CHECKING

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import phrase

if TYPE_CHECKING:
    from evalwright.agents.gateway import Gateway
    from evalwright.agents.span_receiver import SpanReceiver
    from evalwright.models.protocol import Model

TOKEN_VARIABLE = "EVALWRIGHT_AGENT_TOKEN"  # noqa: S105 - the name of the variable, not a token
_DOCUMENTS = (".json", ".yaml", ".yml")
ARCHIVES = (".tgz", ".tar.gz")


def load_agent(
    ref: str,
    agent_id: str | None = None,
    model_class: str | None = None,
    model: "Model | None" = None,
    gateway: "Gateway | None" = None,
    receiver: "SpanReceiver | None" = None,
    *,
    isolate: bool = False,
) -> Agent:
    """An agent by reference.

    An address, `cmd:…`, `module:callable`, `path/file.py:callable`, or an agent manifest: a JSON or
    YAML file, or the folder or archive of a pack. To `isolate` a Python agent is to run it in other
    processes.
    """
    if isolate and not is_python(ref):
        raise BadInput(
            phrase(
                "{@isolate} is for agents in Python, which {@agent:{ref}} is not: "
                "its code does not run in this process; leave it out",
                ref=ref,
            )
        )
    if not is_outside(ref):
        for option, given in (("{@gateway}", gateway), ("{@otlp}", receiver)):
            if given is not None:
                raise BadInput(
                    phrase(
                        f"{option} is for agents outside this process: an http(s):// address or "
                        "cmd:; leave it out for {@agent:{ref}}",
                        ref=ref,
                    )
                )
    if is_manifest(ref):
        return _load_manifest(ref, agent_id, model_class, model)
    if model is not None:
        raise BadInput(
            phrase(
                "{@model} is for an agent manifest, which {@agent:{ref}} is not; leave it out",
                ref=ref,
            )
        )
    if ref.lower().startswith(("http://", "https://")):
        from evalwright.agents.http import load_http

        return load_http(ref, agent_id, model_class, gateway, receiver)
    if ref.startswith("cmd:"):
        from evalwright.agents.command import load_command

        return load_command(ref, agent_id, model_class, gateway, receiver)
    if isolate:
        from evalwright.agents.isolation.agent import IsolatedAgent

        return IsolatedAgent(ref, code=ref, agent_id=agent_id, model_class=model_class)
    from evalwright.agents.python import load_python

    return load_python(ref, agent_id, model_class)


def is_python(ref: str) -> bool:
    """Whether a reference names code in Python."""
    return not is_manifest(ref) and not is_outside(ref)


def is_outside(ref: str) -> bool:
    """Whether a reference names an agent in another process."""
    return ref.lower().startswith(("http://", "https://")) or ref.startswith("cmd:")


def is_manifest(ref: str) -> bool:
    """Whether a reference names a manifest, or a pack with one."""
    if is_outside(ref):
        return False
    path = ref.partition("#")[0]
    if path.lower().endswith((*_DOCUMENTS, *ARCHIVES)):
        return True
    return bool(path) and Path(path).is_dir()


def _load_manifest(
    ref: str,
    agent_id: str | None,
    model_class: str | None,
    model: "Model | None",
) -> Agent:
    if model is None:
        raise BadInput(
            phrase("{@agent:{ref}}: a manifest runs on a model; name it with {@model}", ref=ref)
        )
    if agent_id is not None or model_class is not None:
        raise BadInput(
            phrase(
                "{@agent:{ref}}: its id and model class are in the manifest; "
                "leave out {@agent_id} and {@model_class}",
                ref=ref,
            )
        )
    if ref.partition("#")[0].lower().endswith(ARCHIVES):
        from evalwright.agents.packs.pack import load_packed

        return load_packed(ref, model)
    from evalwright.agents.manifest import load_manifest

    return load_manifest(ref, model)
