"""What the settings file means for a run: the agent, judges and gates that fit a suite."""

import msgspec

from evalwright.agents.load import is_outside, is_python
from evalwright.contracts.planning import RunOptions
from evalwright.contracts.suite import Suite
from evalwright.engine.plan import is_judged, looks_for_findings
from evalwright.models.run_defaults import RunDefaults


def fitting(
    defaults: RunDefaults, agent: str | None, options: RunOptions, suite: Suite
) -> tuple[str | None, RunOptions]:
    """The agent, and the options with the judges and gates that mean something for a suite.

    What the command line or the suite says counts first. What the settings claim of their agent
    holds for that one only.
    """
    if agent in (None, defaults.agent):
        options = msgspec.structs.replace(
            options,
            agent_tools=options.agent_tools or defaults.agent_tools,
            agent_usage=options.agent_usage or defaults.agent_usage,
        )
    named = agent or defaults.agent
    if defaults.isolate and named is not None and is_python(named):
        options = msgspec.structs.replace(options, isolate=True)
    if options.observe is None:
        options = msgspec.structs.replace(options, observe=defaults.observe)
    if defaults.otlp and named is not None and is_outside(named):
        options = msgspec.structs.replace(options, otlp=True)
    if defaults.judges and not options.judges and is_judged(suite, options.modes):
        options = msgspec.structs.replace(options, judges=defaults.judges)
    if defaults.fail_on and not options.fail_on:
        usable = [
            gate
            for gate in defaults.fail_on
            if (gate != "findings" or looks_for_findings(suite, options.modes))
            and (not gate.endswith("regression") or options.baseline is not None)
        ]
        options = msgspec.structs.replace(options, fail_on=tuple(usable))
    return named, options


def without_spare_judges(options: RunOptions, suite: Suite) -> RunOptions:
    """The options for one of several suites, or a part of one, where others may need judges."""
    if not options.judges or is_judged(suite, options.modes):
        return options
    return msgspec.structs.replace(options, judges=(), judge_samples=None)
