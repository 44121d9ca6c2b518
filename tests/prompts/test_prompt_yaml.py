"""The `.prompt.yml` format: what is read, what is refused and where, how templates are filled."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from evalwright.models.protocol import ChatMessage, OutputSchema
from evalwright.prompts.document import UnfitPrompt
from evalwright.prompts.prompt_yaml import (
    BuiltInEvaluator,
    Choice,
    LlmEvaluator,
    Parameters,
    PromptFile,
    StringEvaluator,
    fill,
    parse_prompt_yaml,
    placeholders,
)
from strategies import json_values

PAGE = Path(__file__).parents[2] / "docs" / "prompt-yaml.md"
WHOLE = """
name: Summaries
description: One sentence for each text
model: openai/gpt-4o-mini
modelParameters: {maxTokens: 500, temperature: 0.3, topP: 1}
responseFormat: json_schema
jsonSchema: '{"name": "summary", "strict": true, "schema": {"type": "object"}}'
messages:
  - role: system
    content: Be brief.
  - {role: User, content: "Sum up: {{input}}"}
  - {role: assistant, content: ""}
testData:
  - {input: A cup fell., expected: A cup fell., date: 2026-01-01}
evaluators:
  - name: same
    string: {contains: "{{expected}}"}
  - name: short
    llm:
      modelId: openai/gpt-4o
      systemPrompt: You judge.
      prompt: "Is it short? {{completion}}"
      choices: [{choice: yes, score: 1}, {choice: 0, score: 0}]
  - uses: github/fluency
surprise: {unknown: keys are ignored}
"""


def parsed(text: str) -> PromptFile:
    return parse_prompt_yaml(text, "a.prompt.yml")


def of(**fields: Any) -> PromptFile:
    """A file with one message and these fields."""
    return parsed(yaml.safe_dump({"messages": [{"role": "user", "content": "Hello"}], **fields}))


def refusal(**fields: Any) -> str:
    with pytest.raises(UnfitPrompt) as caught:
        of(**fields)
    assert caught.value.code == "invalid_input"
    return caught.value.message


def evaluator(**fields: Any) -> Any:
    return of(evaluators=[fields]).evaluators[0]


def test_a_whole_file_is_read() -> None:
    assert parsed(WHOLE) == PromptFile(
        source="a.prompt.yml",
        name="Summaries",
        description="One sentence for each text",
        model="openai/gpt-4o-mini",
        parameters=Parameters(max_tokens=500, temperature=0.3, top_p=1.0),
        response_format="json_schema",
        output=OutputSchema("summary", {"type": "object"}),
        messages=(
            ChatMessage("system", "Be brief."),
            ChatMessage("user", "Sum up: {{input}}"),
            ChatMessage("assistant", ""),
        ),
        rows=({"input": "A cup fell.", "expected": "A cup fell.", "date": "2026-01-01"},),
        evaluators=(
            StringEvaluator("same", "contains", "{{expected}}"),
            LlmEvaluator(
                "short",
                "Is it short? {{completion}}",
                (Choice("yes", 1.0), Choice("0", 0.0)),
                "openai/gpt-4o",
                "You judge.",
            ),
            BuiltInEvaluator("github/fluency", "github/fluency"),
        ),
    )


def test_only_messages_are_required() -> None:
    file = of()
    assert file == PromptFile("a.prompt.yml", (ChatMessage("user", "Hello"),))


def test_null_is_the_same_as_nothing() -> None:
    nothing = dict.fromkeys(("name", "modelParameters", "responseFormat", "testData", "evaluators"))
    assert of(**nothing) == of()


def test_the_limit_of_tokens_has_two_spellings_and_the_official_one_counts() -> None:
    assert of(modelParameters={"max_tokens": 7}).parameters.max_tokens == 7
    both = {"max_tokens": 7, "maxTokens": 8}
    assert of(modelParameters=both).parameters.max_tokens == 8


def test_a_json_object_is_asked_for_as_a_schema_that_every_object_fits() -> None:
    assert of(responseFormat="json_object").output == OutputSchema("response", {"type": "object"})
    assert of(responseFormat="text", jsonSchema="not looked at").output is None


def test_of_several_comparisons_the_first_that_is_present_counts() -> None:
    given = {"endsWith": "d", "startsWith": "c", "contains": "b", "equals": "a"}
    for comparison, value in (("equals", "a"), ("contains", "b"), ("startsWith", "c")):
        made = evaluator(name="n", string=given)
        assert made == StringEvaluator("n", comparison, value)  # type: ignore[arg-type]
        del given[comparison]
    assert evaluator(name="n", string={"equals": "", "endsWith": "d"}).comparison == "endsWith"


def test_an_evaluator_without_a_name_gets_one() -> None:
    assert evaluator(string={"equals": "a"}).name == "evaluator 1"


def test_a_whole_number_is_a_text_where_a_text_is_wanted() -> None:
    assert evaluator(string={"equals": 42}).value == "42"


LLM = {"prompt": "p", "choices": [{"choice": "a", "score": 1}]}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"messages": []}, "$.messages: missing or empty"),
        ({"messages": None}, "$.messages: missing or empty"),
        ({"messages": "Hello"}, "$.messages: it is a text, and must be a list"),
        ({"messages": ["Hello"]}, "$.messages[0]: it is a text, and must be a mapping"),
        (
            {"messages": [{"role": "tool", "content": ""}]},
            "$.messages[0].role: unknown role 'tool' (write system, user or assistant)",
        ),
        ({"messages": [{"content": ""}]}, "$.messages[0].role: it is missing"),
        ({"messages": [{"role": "user"}]}, "$.messages[0].content: it is missing"),
        ({"messages": [{"role": "user", "content": 1.5}]}, "$.messages[0].content: it is a number"),
        ({"name": ["a"]}, "$.name: it is a list, and must be a text"),
        ({"modelParameters": [1]}, "$.modelParameters: it is a list"),
        ({"modelParameters": {"max_tokens": 0}}, "$.modelParameters.max_tokens: it is '0'"),
        ({"modelParameters": {"maxTokens": True}}, "$.modelParameters.maxTokens: it is 'true'"),
        ({"modelParameters": {"temperature": "hot"}}, "$.modelParameters.temperature: it is 'hot'"),
        ({"modelParameters": {"topP": 1.1}}, "(write a number from 0 to 1)"),
        ({"responseFormat": "xml"}, "$.responseFormat: unknown format 'xml' (write text, json_obj"),
        ({"responseFormat": "json_schema"}, "$.jsonSchema: it is missing"),
        ({"responseFormat": "json_schema", "jsonSchema": {}}, "$.jsonSchema: it is a mapping"),
        ({"responseFormat": "json_schema", "jsonSchema": "{"}, "$.jsonSchema: not valid JSON"),
        ({"responseFormat": "json_schema", "jsonSchema": '{"name":"n"}'}, "an object `schema`"),
        ({"responseFormat": "json_schema", "jsonSchema": "[]"}, "must be an object with a `name`"),
        ({"testData": {"input": "a"}}, "$.testData: it is a mapping, and must be a list"),
        ({"testData": [{}, "a"]}, "$.testData[1]: it is a text, and must be a mapping"),
        ({"testData": [{"<<": {}}]}, "$.testData[0]: merge keys"),
        ({"evaluators": [{"name": "n"}]}, "$.evaluators[0]: it has none of string, llm and uses"),
        (
            {"evaluators": [{"string": {"equals": "a"}, "uses": "github/fluency"}]},
            "$.evaluators[0]: it has string and uses (an evaluator is of exactly one kind",
        ),
        (
            {"evaluators": [{"uses": "github/beauty"}]},
            "$.evaluators[0].uses: unknown evaluator 'github/",
        ),
        ({"evaluators": [{"string": "a"}]}, "$.evaluators[0].string: it is a text"),
        ({"evaluators": [{"string": {}}]}, "$.evaluators[0].string: there is nothing to compare"),
        ({"evaluators": [{"string": {"equals": True}}]}, "string.equals: it is a yes or no"),
        ({"evaluators": [{"llm": {**LLM, "prompt": None}}]}, "llm.prompt: it is missing"),
        ({"evaluators": [{"llm": {**LLM, "choices": []}}]}, "llm.choices: missing or empty"),
        ({"evaluators": [{"llm": {**LLM, "choices": [{"choice": "a"}]}}]}, "score: it is missing"),
        (
            {"evaluators": [{"llm": {**LLM, "choices": [{"choice": " ", "score": 1}]}}]},
            "$.evaluators[0].llm.choices[0].choice: it is blank",
        ),
        (
            {"evaluators": [{"llm": {**LLM, "choices": [{"choice": "a", "score": 10**400}]}}]},
            "$.evaluators[0].llm.choices[0].score: it is",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(fields: dict[str, Any], told: str) -> None:
    message = refusal(**fields)
    assert message.startswith("a.prompt.yml: $.")
    assert told in message
    assert "(" in message, "there is a remedy"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1, column 1: the file is empty"),
        ("messages: ]", "line 1, column 11: not valid YAML"),
        ("a: 1\na: 2", "line 2, column 1: not valid YAML: duplicate key 'a'"),
        ("- a", "$: it is a list, and must be a mapping"),
        ("messages: !!python/object:os.system {}", "line 1, column 11: not valid YAML"),
        ("messages: &a [*a]", "line 1, column 11: not valid YAML: found unconstructable"),
        ("messages: \ud800", "$: there is half of a surrogate pair"),
    ],
)
def test_what_is_no_mapping_in_yaml_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(UnfitPrompt) as caught:
        parsed(text)
    assert caught.value.code == "invalid_input"
    assert told in caught.value.message


FIELDS = ("name", "model", "modelParameters", "responseFormat", "jsonSchema", "messages")
INNER = ("role", "content", "string", "llm", "uses", "choices", "choice", "score", "equals", "<<")
keys = st.sampled_from((*FIELDS, "testData", "evaluators", *INNER, "maxTokens", "temperature"))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
words = st.sampled_from(("user", "json_schema", '{"name":"n","schema":{}}', "github/fluency", ""))
documents = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=30,
)


def parses_or_is_unfit(text: str) -> None:
    refused: UnfitPrompt | None = None
    try:
        parsed(text)
    except UnfitPrompt as error:
        refused = error
    if refused is not None:
        assert refused.code == "invalid_input"
        assert refused.message.startswith("a.prompt.yml: ")


@given(documents)
def test_any_document_is_read_or_refused_and_nothing_else_happens(document: Any) -> None:
    parses_or_is_unfit(yaml.safe_dump(document, allow_unicode=True))


@given(documents, st.sampled_from((*FIELDS, "testData", "evaluators")))
def test_any_value_of_a_known_field_is_read_or_refused(document: Any, field: str) -> None:
    whole = {"messages": [{"role": "user", "content": "Hello"}], field: document}
    parses_or_is_unfit(yaml.safe_dump(whole))


@given(st.text() | st.text(alphabet="-:[]{}&*!|>'\"#%@`? \n\tab0.", max_size=40))
@example("\x00")
@example("a: \x07")
@example("&a {*a: 1}")
@example('messages: "\\ud800"')
@example("a: !!int x")
@example("? [a]\n: b")
@example("--- a\n--- b")
@example("[" * 5000)
@example("a: 1e999")
@example("a: " + "9" * 5000)
def test_any_text_is_read_or_refused_and_nothing_else_happens(text: str) -> None:
    parses_or_is_unfit(text)


def test_templates_are_filled_with_texts_and_with_json() -> None:
    row = {"a": "x", "n": 1.0, "t": True, "l": [1, {"b": None}], "none": None}
    assert fill("{{a}} {{n}} {{t}} {{l}} {{none}}", row) == 'x 1 true [1,{"b":null}] null'


def test_what_has_no_value_is_left_as_it_is() -> None:
    assert fill("{{b}} {{ a }} {a} {{A}} {{}} {{{a}}}", {"a": "x"}) == (
        "{{b}} {{ a }} {a} {{A}} {{}} {x}"
    )
    assert fill("{{a}}", {}) == "{{a}}"


def test_placeholders_are_named_once_in_order() -> None:
    assert placeholders("{{b}} {{a}} {{b}} {{ c }} {d} {{\n}}") == ["b", "a", " c "]


plain_text = st.text(max_size=8).map(lambda text: text.replace("{", "").replace("}", ""))
values = st.text(max_size=8) | st.sampled_from(("{{a}}", "{{b}}", "{{", "}}", "a}}", "\\1", "{{a"))


@given(
    st.lists(st.tuples(plain_text, st.sampled_from("abc"))),
    st.fixed_dictionaries({"a": values | json_values, "b": values, "c": values}),
)
def test_a_value_is_never_expanded_again(parts: list[tuple[str, str]], row: dict[str, Any]) -> None:
    template = "".join(f"{text}{{{{{name}}}}}" for text, name in parts)
    pieces = [piece for text, name in parts for piece in (text, fill(f"{{{{{name}}}}}", row))]
    assert fill(template, row) == "".join(pieces)
    for name in "bc":
        assert fill(f"{{{{{name}}}}}", row) == row[name]


@given(st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=4), st.text(max_size=4))
def test_any_key_can_be_filled_in_wherever_it_stands(row: dict[str, str], around: str) -> None:
    plain = around.replace("{", "").replace("}", "")
    for key, value in row.items():
        if "{" not in key and "}" not in key:
            assert fill(f"{plain}{{{{{key}}}}}{plain}", row) == f"{plain}{value}{plain}"


def test_the_example_of_the_page_is_read() -> None:
    examples = re.findall(
        r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    for text in examples:
        assert len(parsed(text).evaluators) == 3
    assert len(examples) == 1


def test_the_page_quotes_an_error_as_it_is() -> None:
    told = refusal(messages=[{"role": "tool", "content": ""}]).removeprefix("a.prompt.yml: ")
    assert f"`{told}`" in PAGE.read_text("utf-8")
