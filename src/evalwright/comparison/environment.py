"""What was compared: agent, runner, model and policies of both runs, as far as they say."""

from typing import Any

from evalwright import __version__
from evalwright.trace.model import Json

_FIELDS = (
    ("agent", "name", ("agent_id", "agent", "agent_name")),
    ("agent", "version", ("agent_version",)),
    ("agent", "commit", ("agent_commit", "git_commit", "commit")),
    ("model", "provider", ("model_provider", "provider")),
    ("model", "id", ("model", "model_id")),
    ("model", "version", ("model_version",)),
    ("policies", "policy_version", ("policy_version",)),
    ("policies", "prompt_version", ("prompt_version",)),
    ("policies", "skills_version", ("skills_version",)),
    ("policies", "tool_schema_version", ("tool_schema_version", "tools_version")),
    ("policies", "config_hash", ("config_hash",)),
)


def env_snapshot(baseline: dict[str, Json], new: dict[str, Json]) -> dict[str, Any]:
    """The new run's environment, the baseline's beside it, and what differs between them."""
    before, after = _environment(baseline), _environment(new)
    changed = [
        f"{part}.{name}"
        for part, name, _ in _FIELDS
        if before.get(part, {}).get(name) != after.get(part, {}).get(name)
    ]
    return {**after, "baseline": before, "changed": changed}


def _environment(meta: dict[str, Json]) -> dict[str, Any]:
    provenance = meta.get("provenance")
    known = {**meta, **provenance} if isinstance(provenance, dict) else meta
    snapshot: dict[str, Any] = {"evaluator": {"version": __version__}}
    for part, name, keys in _FIELDS:
        value = next((known[key] for key in keys if isinstance(known.get(key), str)), None)
        if value is not None:
            snapshot.setdefault(part, {})[name] = value
    params = known.get("model_params")
    if isinstance(params, dict):
        snapshot.setdefault("model", {})["params"] = params
    runner = meta.get("runner")
    if isinstance(runner, dict):
        told = {
            key: runner[key]
            for key in ("name", "version", "commit")
            if isinstance(runner.get(key), str)
        }
        if told:
            snapshot["runner"] = told
    return snapshot
