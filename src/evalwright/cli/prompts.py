"""`evalwright prompts`, also `prompteval`: evaluate prompt files."""

import math
import os
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from evalwright.cli.output import (
    STDOUT,
    check_place,
    echo,
    is_stdout,
    reserve_stdout,
    write_stdout,
)
from evalwright.cli.parameters import (
    DOLLARS,
    chosen_config,
    config_option,
    json_option,
    model_timeout_option,
    quiet_option,
)
from evalwright.contracts.errors import BadInput
from evalwright.prompts.tiers import TIERS
from evalwright.reports.forms import FORMS

_STAND_INS = """
Name other models with -m, or in [tiers.N] of evalwright.toml. GitHub Models, where tiers 4 to 7 ask
by default, is retired: the same models are asked at OpenAI, Azure or OpenRouter if you have a key
there, else the models of another tier that you configured."""
_FORMS = [form for form in FORMS if form.subject == "prompts"]
EXAMPLES = """\b
Examples:
  evalwright prompts prompts/
  prompteval prompts/ -o report.html -o results.json --threshold 80
  prompteval prompts/greeting.md -t 2 -m ollama:phi4 -r 3
  prompteval prompts/ -m openai:gpt-4.1-mini --max-cost 2 -o results.json --resume
  prompteval prompts/ --baseline results.json --fail-on regression
  prompteval prompts/ --push https://evals.example.com
  prompteval . --all-kinds -o - | jq -r '.[] | [.grade, .input.path] | @tsv'
  cat prompt.md | prompteval -
"""


class EvaluationRequest(msgspec.Struct, frozen=True):
    """What the user asked for."""

    paths: tuple[Path, ...]
    tier: int | None
    models: tuple[str, ...]
    runs: int | None
    threshold: float
    outputs: tuple[tuple[Path, str], ...]  # where to, in which format
    judge_samples: int | None
    concurrency: int
    model_timeout_s: float | None
    max_cost_usd: float | None
    resume: bool
    baseline: Path | None
    fail_on: Literal["below", "regression", "error"]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    all_kinds: bool
    fix: bool
    as_json: bool
    streams: bool  # records on stdout as they come, a line each
    quiet: bool
    minimal: bool
    with_host_info: bool
    cassette: Path | None
    record: bool
    push: str | None
    config: Path | None

    @property
    def prints_result(self) -> bool:
        """Whether stdout is for the result alone."""
        return self.as_json or any(is_stdout(path) for path, _ in self.outputs)


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1)
@click.option("-t", "--tier", type=click.IntRange(0, 7), help="How deep to look; see --list-tiers.")
@click.option(
    "-m", "--model", "models", metavar="NAME[,NAME]", multiple=True, help="The models that judge."
)
@click.option(
    "-r", "--runs", type=click.IntRange(1, 100), help="How often each model judges a prompt."
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 100),
    default=70.0,
    show_default=True,
    help="The percentage that a prompt needs to pass.",
)
@click.option(
    "-o",
    "--out",
    "outputs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Write a report in the format of its suffix; - is stdout, as JSON. May be given several "
    "times.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice([form.name for form in _FORMS]),
    help="The format of -o; with --json, jsonl prints one record per line as they are made.",
)
@click.option(
    "--judge-samples",
    type=click.IntRange(1, 100),
    help="How often to sample a model for one score if it gives no token probabilities.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="How many evaluations to run at once.",
)
@model_timeout_option
@click.option(
    "--max-cost",
    "max_cost_usd",
    type=DOLLARS,
    help="Stop asking models after this many US dollars.",
)
@click.option(
    "--resume", is_flag=True, help="Keep the results already in -o and evaluate the rest."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Earlier results, to show what got better and worse.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["below", "regression", "error"]),
    default="below",
    show_default=True,
    help="What makes the exit code 1; an evaluation that fails always makes it 3.",
)
@click.option(
    "--select", metavar="RULES", multiple=True, help="Apply only these rules of the linter."
)
@click.option("--ignore", metavar="RULES", multiple=True, help="Skip these rules of the linter.")
@click.option(
    "--all-kinds",
    is_flag=True,
    help="In folders, also evaluate .mdc, .txt, .prompt, .prompty and template files, agents and "
    "instructions.",
)
@click.option("--fix", is_flag=True, help="Apply the safe fixes of the linter to the files.")
@click.option("--minimal", is_flag=True, help="Write only the required fields of results.")
@click.option(
    "--with-host-info", is_flag=True, help="Add absolute paths and the name of this machine."
)
@click.option(
    "--cassette", type=click.Path(path_type=Path), help="Answer model calls from this file."
)
@click.option(
    "--record", is_flag=True, help="Make the calls that the cassette lacks, and add them."
)
@click.option(
    "--push",
    metavar="URL",
    help="Keep the results, with the texts of the files, for the pages: on a host "
    "(https://…, with a key in EVALWRIGHT_KEY) or in a log (a file, or `local`).",
)
@click.option("--list-tiers", is_flag=True, help="List the tiers and exit.")
@click.option("--list-models", is_flag=True, help="List the providers of models and exit.")
@click.option("--list-rules", is_flag=True, help="List the rules of the linter and exit.")
@quiet_option
@json_option
@config_option
def command(*, paths: tuple[str, ...], **given: Any) -> int:
    """Evaluate the prompts in PATHS: files, folders, or - for standard input.

    Tier 0 needs no model: it is a linter whose findings have a line, a column and a remedy. Higher
    tiers ask models to judge.
    """
    tiers, rules, providers = (given.pop(f"list_{name}") for name in ("tiers", "rules", "models"))
    if tiers or rules or providers:
        echo(_listed(given["config"], tiers=tiers, rules=rules))
        return 0
    if not paths:
        raise BadInput("name files or folders with prompts, or - for standard input; see --help")
    if "" in paths:
        raise BadInput("a path is empty; name a file or a folder, or `.` for the current folder")
    if not math.isfinite(given["threshold"]):
        raise BadInput("--threshold must be a number from 0 to 100")
    models = tuple(name.strip() for each in given["models"] for name in each.split(","))
    models = tuple(filter(None, models))
    if given["models"] and not models:
        raise BadInput("-m names no model; write provider:model")
    outputs = [STDOUT if is_stdout(path) else path for path in given["outputs"]]
    # One file must not be two things: a report would overwrite what it is made of.
    if outputs.count(STDOUT) + given["as_json"] > 1:
        raise BadInput("stdout can hold one result; give --json or -o - once, or name a file")
    files = [path for path in outputs if path.is_file() or not path.exists()]
    others = [path for path in (given["cassette"], given["baseline"]) if path is not None]
    places = [os.path.realpath(path) for path in (*files, *others)]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise BadInput(f"{twice} is named twice, among -o, --cassette and --baseline")
    if given["record"] and given["cassette"] is None:
        raise BadInput("--record needs --cassette FILE")
    if given["resume"] and set(outputs) <= {STDOUT}:
        raise BadInput("--resume continues the results in a file; name it with -o")
    if given["fail_on"] == "regression" and given["baseline"] is None:
        raise BadInput("--fail-on regression needs earlier results; name them with --baseline")
    file_format = given.pop("file_format")
    given |= {
        "paths": tuple(map(Path, paths)),
        "models": models,
        "outputs": tuple((path, _format(path, file_format)) for path in outputs),
        "streams": given["as_json"] and file_format == "jsonl",
    }
    request = EvaluationRequest(**given)  # each by its own name
    emit = reserve_stdout() if request.prints_result else write_stdout
    from evalwright.cli.prompteval.prompt_evaluation import evaluate

    return evaluate(request, emit)


def _format(path: Path, chosen: str | None) -> str:
    if is_stdout(path):
        return chosen or "json"
    check_place(path.absolute())
    if chosen is not None:
        return chosen
    suffixes = {each: form.name for form in _FORMS for each in form.suffixes}
    found = suffixes.get(path.suffix.lower())
    if found is None:
        raise BadInput(
            f"-o {path}: the suffix does not say the format; use one of {', '.join(suffixes)}, "
            "or give --format"
        )
    return found


def _listed(config: Path | None, *, tiers: bool, rules: bool) -> str:
    if tiers:
        return (
            "\n".join(
                f"{tier.number}  {tier.name:<13} {tier.what}"
                + (f" ({', '.join(tier.models)})" if tier.models else "")
                for tier in TIERS
            )
            + f"\n{_STAND_INS}"
        )
    if rules:
        from evalwright.prompts.rules.rule_table import CATALOGUE

        return "\n".join(
            f"{rule.id}  {rule.severity:<8} {rule.criterion:<14} {rule.name}: {rule.summary}"
            + (" (fixable)" if rule.fixable else "")
            for rule in CATALOGUE
        )
    from evalwright.models.endpoints import is_retired, known_providers
    from evalwright.models.local import how_to_install

    lines = []
    settings = chosen_config(config)
    for name, provider in known_providers(settings).items():
        key = provider.key_env
        has_key = "no key needed" if not provider.needs_key else f"key from {key}"
        if key and os.environ.get(key):
            has_key = f"key from {key}, which is set"
        if provider.dialect == "local" and (command := how_to_install()):
            has_key += f"; not installed: {command}"
        if is_retired(provider, settings):
            has_key += f"; retired on {provider.retired}, unless {provider.base_url_env} is set"
        lines.append(f"{name + ':MODEL':<20} {has_key}")
    return "\n".join([*lines, f"{'PUBLISHER/MODEL':<20} the same as github:PUBLISHER/MODEL"])
