"""AgentManifest: an agent as a prompt, a class of models, its tools and the shapes it keeps."""

from pathlib import PurePosixPath
from typing import Any

import msgspec

from evalwright.contracts.documents import parse_document, unfit_for_json
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.schema import MANIFEST_FIELDS, check_schema
from evalwright.contracts.suite import Closed, ModelClass

_REFS = ("systemPromptRef", "evalSuiteRef")
_HANDOFF_REFS = ("taskSchemaRef", "returnSchemaRef")
_INSIDE = "name a file below the manifest's folder, for example prompts/resolver.md"


class MemoryShape(Closed, frozen=True):
    """The kinds of memory that the agent works with."""

    scratchpad: bool = False
    conversation: bool = False
    long_term: bool = False


class Confidence(Closed, frozen=True):
    """How sure the agent should be."""

    default_threshold: float | None = None


class Handoff(Closed, frozen=True):
    """Files with the JSON Schemas of input and output."""

    task_schema_ref: str | None = None
    return_schema_ref: str | None = None


class Manifest(Closed, frozen=True):
    """One agent; exactly one of `system_prompt` and `system_prompt_ref` is there."""

    agent_id: str
    persona: str
    model_class: ModelClass
    system_prompt: str | None = None
    system_prompt_ref: str | None = None
    eval_suite_ref: str | None = None
    tool_allowlist: list[str] | None = None
    requires_capabilities: list[str] = msgspec.field(default_factory=list)
    memory_shape: MemoryShape = MemoryShape()
    confidence: Confidence = Confidence()
    handoff: Handoff = Handoff()
    label: str | None = None
    description: str | None = None
    prompt_library_ref: str | None = None
    prompt_overrides: dict[str, Any] = msgspec.field(default_factory=dict)


def parse_manifest(source: bytes, name: str) -> Manifest:
    """Read a manifest from the content of a JSON or YAML file; all its problems at once."""
    document = parse_document(source, name)
    problems = unfit_for_json(document) or _check(document)
    if problems:
        raise InvalidDocument(name, problems)
    return msgspec.convert(document, Manifest, strict=False)


def parse_pack(source: bytes, name: str) -> list[Manifest]:
    """Read the agents of a `pack.json`; the rest is ignored."""
    document = parse_document(source, name)
    problems = unfit_for_json(document)
    if not problems:
        agents = document.get("agents") if isinstance(document, dict) else None
        if isinstance(agents, list) and agents:
            for index, agent in enumerate(agents):
                problems += [each.below(f"$.agents[{index}]") for each in _check(agent)]
            problems += _check_ids(agents, document.get("name"))
        else:
            message = "the pack has no list of agents"
            problems = [Problem("$.agents", message, "add one manifest at least")]
    if problems:
        raise InvalidDocument(name, problems)
    return msgspec.convert(agents, list[Manifest], strict=False)


def problem_of_ref(ref: str) -> str | None:
    """Why a reference cannot be followed: it must lead to a file below the manifest's folder."""
    if "\\" in ref or "\0" in ref:
        return "separate parts with /, written plainly"
    if ref.startswith("/") or ":" in ref.partition("/")[0]:
        return "an absolute path or address leads out of the manifest's folder"
    if ".." in PurePosixPath(ref).parts:
        return "`..` leads out of the manifest's folder"
    return None


def _check(document: Any) -> list[Problem]:
    problems = check_schema(document, MANIFEST_FIELDS)
    if isinstance(document, dict):
        given = [key for key in ("systemPrompt", "systemPromptRef") if key in document]
        if len(given) != 1:
            message = "two system prompts are given" if given else "there is no system prompt"
            remedy = "give systemPrompt or systemPromptRef, one of them"
            problems.append(Problem("$", message, remedy))
        problems += _check_refs(document, _REFS, "$")
        problems += _check_refs(document.get("handoff"), _HANDOFF_REFS, "$.handoff")
    return problems


def _check_refs(holder: Any, keys: tuple[str, ...], path: str) -> list[Problem]:
    if not isinstance(holder, dict):
        return []
    refs = {key: holder[key] for key in keys if isinstance(holder.get(key), str)}
    found = {key: problem_of_ref(ref) for key, ref in refs.items()}
    return [
        Problem(f"{path}.{key}", f"{refs[key]!r}: {message}", _INSIDE)
        for key, message in found.items()
        if message
    ]


def _check_ids(agents: list[Any], pack: Any) -> list[Problem]:
    problems, seen = [], set()
    for index, agent in enumerate(agents):
        agent_id = agent.get("agentId") if isinstance(agent, dict) else None
        if not isinstance(agent_id, str):
            continue
        path = f"$.agents[{index}].agentId"
        if agent_id in seen:
            problems.append(Problem(path, f"{agent_id!r} is already used", "give each its own id"))
        seen.add(agent_id)
        if isinstance(pack, str) and agent_id.rpartition(".")[0] != pack:
            remedy = f"call it {pack}.NAME"
            problems.append(Problem(path, f"{agent_id!r} is not of the pack {pack!r}", remedy))
    return problems
