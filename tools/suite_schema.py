"""The form of a suite as a JSON Schema: what editors complete, and what files are checked by.

The file `src/evalwright/contracts/schemas/suite.schema.json` is written from here, by
`REWRITE_SNAPSHOTS=1 pytest tests/engine/suites/test_schema.py`.
"""

import copy
from typing import Any, get_args

from evalwright.contracts.run_plan import MAX_REPEATS
from evalwright.contracts.schema import SUITE, load_schema
from evalwright.contracts.suite import MOST_TURNS, WORLD_OPERATIONS, FaultKind
from evalwright.scoring.checks.table import CHECKS, WEIGHT, fields_beside


def suite_schema() -> dict[str, Any]:
    """The published schema: with the arguments of every check."""
    portable = load_schema(SUITE)["properties"]
    fields = _top(portable)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:evalwright:schema:suite",
        "title": "Suite with checks",
        "description": "Evals as people write them: checks, data files, templates, repeats. "
        "A field that this schema does not name is refused.",
        "type": "object",
        "additionalProperties": False,
        "required": ["evalwright"],
        "anyOf": [{"required": ["tasks"]}, {"required": ["data"]}],
        "properties": fields,
        "$defs": {
            "check": checks_schema()["$defs"]["check"],
            "checks": {
                **_list({"$ref": "#/$defs/check"}, "What a good answer is; all must pass."),
                "examples": [[{"contains": "shipped"}]],
            },
            "data": _data(),
            "fixtures": _fixtures(portable["tasks"]["items"]["properties"]["fixtures"]),
            "fault": _fault(),
        },
    }


def checks_schema() -> dict[str, Any]:
    """The JSON Schema of a check document, with a description of each check for editors."""
    properties: dict[str, Any] = {
        name: {"description": f"{kind.description} Example: {kind.example}", **kind.schema}
        for name, kind in CHECKS.items()
    }
    for name, kind in CHECKS.items():
        forms = [form.get("properties", {}) for form in kind.schema.get("anyOf", ())]
        for field in sorted(fields_beside(name)):
            schema = next((form[field] for form in forms if field in form), {"type": "boolean"})
            if field not in CHECKS:
                properties.setdefault(field, {**schema, "description": f"A field of `{name}`."})
                continue
            known = properties[field]  # `at_least` is a check, and a field of others
            listed = known.get("anyOf") or [
                {key: known[key] for key in known if key != "description"}
            ]
            if schema not in listed:
                known = {"description": known["description"], "anyOf": [*listed, schema]}
                properties[field] = known
    properties[WEIGHT] = {
        "description": "How much the check counts in the score of the task; 1 unless given.",
        "type": "number",
        "minimum": 0,
    }
    check = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "anyOf": [{"required": [name]} for name in CHECKS],
    }
    return {"$ref": "#/$defs/check", "$defs": {"check": check}}


def _top(portable: dict[str, Any]) -> dict[str, Any]:
    return {
        "evalwright": {"description": "The version of this form: 1.", "const": 1},
        "name": _text("A short name; `suiteId` is local.evals.NAME unless it is given."),
        "description": _text("What the suite is for."),
        "suiteId": portable["suiteId"],
        "version": portable["version"],
        "agent": _agent(),
        "targetAgentId": portable["targetAgentId"],
        "allowedModels": portable["allowedModels"],
        "modes": portable["modes"],
        "thresholds": _thresholds(portable["thresholds"]),
        "defaults": _closed(_common(), "What every task has; its checks are added to the task's."),
        "vars": _vars(),
        "worlds": {
            "description": "Data that tools read and change, by name; fresh for each task.",
            "type": "object",
            "additionalProperties": _world(),
        },
        "data": {
            "description": "Files with a task in each row.",
            "anyOf": [
                {"type": "string", "minLength": 1},
                _list({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/data"}]}, "Several."),
            ],
        },
        "tasks": {
            **_list(_task(), "What the agent is asked."),
            "minItems": 1,
            "examples": [[{"input": "Hello", "checks": [{"contains": "help"}]}]],
        },
    }


def _agent() -> dict[str, Any]:
    ref = _text("agent.py:answer, module:callable, an address, cmd:PROGRAM or a manifest.")
    tools = "What is claimed of its tool calls: it makes `none`, or all of them by `task`."
    usage = "What is claimed of its model calls: it makes `none`."
    claims = {
        "ref": ref,
        "tools": {"description": tools, "enum": ["none", "task"]},
        "usage": {"description": usage, "enum": ["none"]},
        "isolate": {
            "description": "Run the agent, in Python, in child processes, which can be stopped.",
            "type": "boolean",
        },
    }
    return {
        "description": "The agent to run, unless the run names another: agent.py:answer; or an "
        "object with its `ref`, what is claimed of it where nobody observes it, and `isolate`.",
        "if": {"type": "object"},
        "then": {**_closed(claims, "An agent with claims."), "required": ["ref"]},
        "else": {"type": "string", "minLength": 1},
        "examples": ["agent.py:answer", {"ref": "agent.py:answer", "tools": "none"}],
    }


def _thresholds(portable: dict[str, Any]) -> dict[str, Any]:
    rate = _share("The share of the tasks that must pass.")
    score = _share("What their mean score must be.")
    tag = _closed({"passRate": rate, "passScore": score}, "The bars for the tasks with a tag.")
    tags = {
        "description": "Bars by tag: {safety: {passRate: 1}}.",
        "type": "object",
        "additionalProperties": {**tag, "minProperties": 1},
    }
    return {**portable, "properties": {**portable["properties"], "passRate": rate, "tags": tags}}


def _task() -> dict[str, Any]:
    fields = {
        "id": {
            "description": "Lower-case letters, digits and hyphens; made from the content "
            "unless it is given.",
            "type": "string",
            "pattern": "^[a-z0-9][a-z0-9-]*$",
            "maxLength": 128,
            "examples": ["refund-window"],
        },
        "title": {
            **_text("What lists call the task, which may be a template; else what is asked."),
            "maxLength": 500,
        },
        "description": _text("What the task is for."),
        "input": {"description": "What the agent receives; texts may be templates."},
        "turns": {
            **_list(_turn(), "What the user says one after the other, in place of an input."),
            "minItems": 1,
            "maxItems": MOST_TURNS,
            "examples": [[{"user": "Where is my order?", "checks": [{"contains": "number"}]}]],
        },
        "user": _user(),
        **_common(),
        "expected": {"description": "A reference answer, for templates and own checks."},
        "vars": _vars(),
        "matrix": {
            "description": "One task for each combination of the lists in `vars`: true, or the "
            "names of those to combine.",
            "anyOf": [{"type": "boolean"}, _list({"type": "string"}, "Names of vars.")],
            "examples": [True],
        },
    }
    either = [{"required": [name]} for name in ("input", "turns", "user")]
    return {**_closed(fields, "One task."), "anyOf": either}


def _turn() -> dict[str, Any]:
    fields = {
        "user": _text("What the user says."),
        "checks": {"$ref": "#/$defs/checks"},
        "id": _text("What branches call this turn."),
        "then": _list(_branch(), "What comes next, by the answer; else the next turn."),
        "stop": {
            "description": "End the conversation here if one of the checks fails.",
            "type": "boolean",
        },
    }
    return {**_closed(fields, "One turn of a conversation."), "required": ["user"]}


def _branch() -> dict[str, Any]:
    fields = {
        "if": {"$ref": "#/$defs/check"},
        "turn": _text("The id of a later turn, which comes next."),
        "end": {"description": "The conversation ends.", "const": True},
    }
    either = [{"required": ["turn"]}, {"required": ["end"]}]
    return {**_closed(fields, "A branch; without `if`, it is always taken."), "oneOf": either}


def _user() -> dict[str, Any]:
    fields = {
        "goal": _text("What the user wants, as an instruction to who plays it."),
        "knows": {
            "description": "What the user tells only when it is asked for: {order: A-17}.",
            "type": "object",
        },
        "style": _text("How the user talks: impatient, short sentences."),
        "opening": _text("What the user says first, word for word."),
        "max_turns": {
            "description": "The conversation ends after so many answers; 10 if left out.",
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_TURNS,
        },
        "model": _text("Who plays this user, in place of the model of the run: provider:model."),
    }
    return {
        **_closed(fields, "A user whom a model plays, in place of an input."),
        "required": ["goal"],
        "examples": [{"goal": "Get your money back.", "knows": {"order": "A-17"}}],
    }


def _data() -> dict[str, Any]:
    fields = {
        "file": _text("CSV, TSV, JSON, JSONL, YAML or Parquet, also .gz; from this folder."),
        "huggingface": _text("The id of a data set on Hugging Face: openai/gsm8k."),
        "split": _text("Which split of it; test unless it is given."),
        "subset": _text("Which configuration of it."),
        "rows": _list({"type": "object"}, "Rows that stand here."),
        "format": {
            "description": "How to read the file, where its name does not say.",
            "enum": ["csv", "tsv", "json", "jsonl", "yaml", "parquet"],
        },
        "encoding": _text("Of the text; UTF-8 unless it is given, UTF-16 by its mark."),
        "delimiter": {
            "description": "The character between the cells of a row.",
            "type": "string",
            "pattern": '^[^"\\r\\n]$',
            "examples": [";"],
        },
        "map": {
            "description": "From fields to columns: {input.question: question, expected: answer}; "
            "guessed from the usual names of columns if left out.",
            "type": "object",
            "additionalProperties": {"type": "string"},
            "propertyNames": {
                "pattern": r"^(input(\..+)?|expected(\..+)?|id|tags|title)$",
                "examples": ["input.question"],
            },
            "examples": [{"input.question": "question", "expected": "answer"}],
        },
        "input": {"description": "What the agent receives, as a template with the columns."},
        "expected": {"description": "A reference answer, as a template with the columns."},
        "limit": {"description": "At most this many rows.", "type": "integer", "minimum": 1},
        **_common(),
        "vars": _vars(),
    }
    return _closed(fields, "A file with a task in each row.")


def _common() -> dict[str, Any]:
    tag = {"type": "string", "minLength": 1, "maxLength": 256}
    return {
        "tags": _list(tag, "To select tasks by."),
        "checks": {"$ref": "#/$defs/checks"},
        "threshold": _share("The score at which it passes, in place of all checks."),
        "weight": {
            "description": "In the score of the run; 1 if left out.",
            "type": "number",
            "minimum": 0,
        },
        "repeat": {
            "description": "How often the agent is asked.",
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_REPEATS,
        },
        "pass_rate": _share("The share of repeats that must pass; all if left out."),
        "fixtures": {"$ref": "#/$defs/fixtures"},
        "world": _text("The world whose tools the agent calls, by its name in `worlds`."),
        "faults": {
            **_list({"$ref": "#/$defs/fault"}, "What goes wrong with the tools of the suite."),
            "examples": [[{"tool": "shop:orders.get", "fault": "timeout", "on": 1}]],
        },
    }


def _fixtures(portable: dict[str, Any]) -> dict[str, Any]:
    fixtures: dict[str, Any] = copy.deepcopy(portable)
    fixtures["properties"]["toolResponses"]["items"]["properties"]["args"] = {
        "description": "Answer only calls whose arguments have at least these; of several entries "
        "that fit, the one that names most of them answers.",
        "type": "object",
        "examples": [{"id": "A-17"}],
    }
    return fixtures


def _world() -> dict[str, Any]:
    rows = _list({"type": "object"}, "The rows of a collection.")
    tool = {
        "get": _text("The collection that one row is read from, by the argument `by`."),
        "find": _text("The collection whose rows with these arguments are listed."),
        "create": _text("The collection that the arguments are added to, as a row."),
        "update": _text("The collection of which one row is changed."),
        "delete": _text("The collection of which one row is removed."),
        "replay": _text("The collection of recorded calls whose answers are given again."),
        "python": _text("Your own function: world.py:policy is `def policy(world, **args)`."),
        "by": _text("The field that tells rows apart; `id` unless it is given."),
        "description": _text("What a model is told of the tool."),
    }
    one_of = [{"required": [each]} for each in WORLD_OPERATIONS]
    fields = {
        "data": {
            "description": "Collections of rows, or the JSON or YAML file that they stand in.",
            "if": {"type": "object"},
            "then": {"type": "object", "additionalProperties": rows},
            "else": {"type": "string", "minLength": 1},
            "examples": [{"orders": [{"id": "A-17"}]}, "shop.json"],
        },
        "tools": {
            "description": "What each tool does.",
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {**_closed(tool, "One tool."), "oneOf": one_of},
            "examples": [{"shop:orders.get": {"get": "orders", "by": "id"}}],
        },
    }
    return {**_closed(fields, "A world."), "required": ["data", "tools"]}


def _fault() -> dict[str, Any]:
    fields = {
        "fault": {"description": "What goes wrong.", "enum": [*get_args(FaultKind)]},
        "tool": _text("Whose calls it strikes; those of all tools of the task if left out."),
        "on": {
            "description": "The first call that it strikes, and the only one unless `times` or "
            "`rate` is given.",
            "type": "integer",
            "minimum": 1,
        },
        "times": {"description": "How many calls it strikes.", "type": "integer", "minimum": 1},
        "rate": _share("The share of calls that it strikes, chosen by the seed of the run."),
        "seconds": {
            "description": "By which a slow tool is slower; 1 unless it is given.",
            "type": "number",
            "minimum": 0,
            "maximum": 3600,
        },
    }
    return {**_closed(fields, "Something that goes wrong."), "required": ["fault"]}


def _text(description: str) -> dict[str, Any]:
    return {"description": description, "type": "string", "minLength": 1}


def _share(description: str) -> dict[str, Any]:
    return {"description": description, "type": "number", "minimum": 0, "maximum": 1}


def _vars() -> dict[str, Any]:
    return {"description": "Values for templates: {{ vars.NAME }}.", "type": "object"}


def _list(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "type": "array", "items": items}


def _closed(fields: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": fields,
    }
