"""From what `--agent` says to an agent."""

from evalwright.agents.protocol import Agent


def load_agent(ref: str, agent_id: str | None = None, model_class: str | None = None) -> Agent:
    """An agent by reference: an address, `cmd:…`, `module:callable` or `path/file.py:callable`."""
    if ref.lower().startswith(("http://", "https://")):
        from evalwright.agents.http import load_http

        return load_http(ref, agent_id, model_class)
    if ref.startswith("cmd:"):
        from evalwright.agents.command import load_command

        return load_command(ref, agent_id, model_class)
    from evalwright.agents.python import load_python

    return load_python(ref, agent_id, model_class)
