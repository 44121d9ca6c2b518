"""Cassettes: calls are recorded once, and replayed without a key and without a network."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from asking import KEY, KEYS, a_request, a_tool_conversation, ask, failure

from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.engine.judge_prompt import closed, limited, text_within
from evalwright.models.cassette import Cassette
from evalwright.models.config import Config, ProviderSettings
from evalwright.models.load import Providers
from evalwright.models.protocol import (
    Model,
    ModelError,
    OutputSchema,
    Reply,
    Request,
    ToolSpec,
)
from evalwright.models.scripted import ScriptedModel
from providers import completion, fake_provider


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tapes" / "calls.jsonl"


def counting() -> ScriptedModel:
    """A model that says something else every time."""
    numbers: Iterator[int] = iter(range(1, 1000))
    return ScriptedModel("counter", lambda request: f"answer {next(numbers)}")


def record(tape: Path, *asked: Request, model: Model | None = None) -> list[Reply]:
    cassette = Cassette(tape, record=True)
    taped = cassette.wrap(model or counting())
    return [ask(taped, request) for request in asked]


def player(tape: Path) -> Model:
    return Cassette(tape, record=False).player("scripted:counter")


def test_what_was_recorded_is_replayed_with_all_that_it_was(tape: Path) -> None:
    with fake_provider(completion("yes", message={"reasoning": "hm"})) as provider:
        config = Config({"openai": ProviderSettings(base_url=provider.url)})
        recorder = Providers(config, KEYS).load("openai:m", Cassette(tape, record=True))
        recorded = ask(recorder, a_tool_conversation())
    replaying = Providers(Config(), {}).load("openai:m", Cassette(tape, record=False))
    replayed = ask(replaying, a_tool_conversation())
    assert replayed.usage.cache_hit is True
    usage = msgspec.structs.replace(replayed.usage, cache_hit=None)
    assert msgspec.structs.replace(replayed, usage=usage) == recorded
    assert KEY not in tape.read_text()
    assert "authorization" not in tape.read_text().lower()


def test_replaying_needs_neither_a_key_nor_the_file_of_a_scripted_model(tape: Path) -> None:
    record(tape, a_request())
    cassette = Cassette(tape, record=False)
    for name in ("openai:m", "anthropic:m", "azure:m", "scripted:gone.yaml"):
        assert Providers(Config(), {}).load(name, cassette).name == name


def test_recording_needs_the_key(tape: Path) -> None:
    with pytest.raises(BadInput, match="OPENAI_API_KEY"):
        Providers(Config(), {}).load("openai:m", Cassette(tape, record=True))


def test_the_same_request_is_answered_in_recorded_order_and_then_as_the_last_time(
    tape: Path,
) -> None:
    record(tape, a_request("a"), a_request("a"), a_request("b"))
    model = player(tape)
    replies = [ask(model, a_request("a")).text for _ in range(4)]
    assert replies == ["answer 1", "answer 2", "answer 2", "answer 2"]
    assert ask(model, a_request("b")).text == "answer 3"


def test_a_request_that_was_not_recorded_is_an_error_with_a_remedy(tape: Path) -> None:
    record(tape, a_request("a"))
    error = failure(player(tape), a_request("never asked"))
    assert error.code == "unavailable_model"
    assert f"{tape}: this request is not in the cassette" in error.message
    assert "'never asked'; record it with --record" in error.message


def test_another_model_has_its_own_recordings(tape: Path) -> None:
    record(tape, a_request("a"))
    other = Cassette(tape, record=False).player("scripted:other")
    assert failure(other, a_request("a")).code == "unavailable_model"


def test_recording_again_asks_only_for_what_is_missing(tape: Path) -> None:
    record(tape, a_request("a"), a_request("b"))
    replies = record(tape, a_request("b"), a_request("c"), a_request("b"))
    assert [reply.text for reply in replies] == ["answer 2", "answer 1", "answer 2"]
    assert len(tape.read_text().splitlines()) == 4


def test_errors_are_not_recorded(tape: Path) -> None:
    def fail(request: Request) -> str:
        raise ModelError("rate_limited", "later")

    with pytest.raises(ModelError):
        record(tape, a_request(), model=ScriptedModel("counter", fail))
    assert not tape.exists()


def test_a_torn_last_line_loses_nothing_else_and_is_named(tape: Path) -> None:
    record(tape, a_request("a"), a_request("b"))
    os.truncate(tape, tape.stat().st_size - 10)
    model = player(tape)
    assert ask(model, a_request("a")).text == "answer 1"
    assert "(its line 2 is incomplete)" in failure(model, a_request("b")).message


def test_recording_goes_on_after_a_torn_line(tape: Path) -> None:
    record(tape, a_request("a"), a_request("b"))
    os.truncate(tape, tape.stat().st_size - 10)
    record(tape, a_request("b"))
    model = player(tape)
    assert [ask(model, a_request(text)).text for text in "ab"] == ["answer 1", "answer 1"]


@pytest.mark.parametrize(
    "content",
    [b"not a cassette", b"important\nlines\nwithout end", b'{"answer": 42}', b'["a list"]', b"\0"],
)
def test_a_file_that_is_no_cassette_is_refused_and_left_as_it_is(
    tape: Path, content: bytes
) -> None:
    tape.parent.mkdir()
    tape.write_bytes(content)
    with pytest.raises(InvalidDocument, match="not a recorded call"):
        Cassette(tape, record=True)
    assert tape.read_bytes() == content


def test_a_cassette_is_not_touched_before_there_is_a_call_to_add(tape: Path) -> None:
    record(tape, a_request("a"), a_request("b"))
    os.truncate(tape, tape.stat().st_size - 10)
    before = tape.read_bytes()
    taped = Cassette(tape, record=True).wrap(counting())
    ask(taped, a_request("a"))
    assert tape.read_bytes() == before


def test_a_whole_last_line_without_a_newline_is_replayed_and_kept(tape: Path) -> None:
    record(tape, a_request("a"), a_request("b"))
    os.truncate(tape, tape.stat().st_size - 1)
    assert ask(player(tape), a_request("b")).text == "answer 2"
    record(tape, a_request("c"), a_request("d"))
    model = player(tape)
    replies = [ask(model, a_request(text)).text for text in "abcd"]
    assert replies == ["answer 1", "answer 2", "answer 1", "answer 2"]
    assert len(tape.read_text().splitlines()) == 4


def test_a_torn_line_is_cut_off_once_by_two_who_record_at_the_same_time(tape: Path) -> None:
    record(tape, a_request("a"), a_request("b"))
    os.truncate(tape, tape.stat().st_size - 10)
    both = [Cassette(tape, record=True).wrap(counting()) for _ in range(2)]
    for taped, text in zip(both, "bc", strict=True):
        ask(taped, a_request(text))
    model = player(tape)
    assert [ask(model, a_request(text)).text for text in "abc"] == ["answer 1"] * 3


def test_a_broken_line_is_told_with_its_number(tape: Path) -> None:
    record(tape, a_request("a"))
    tape.write_bytes(tape.read_bytes() + b'{"key": 5}\n')
    with pytest.raises(InvalidDocument, match=r"calls\.jsonl: line 2: not a recorded call"):
        player(tape)


def test_a_cassette_that_is_not_there_is_bad_input_unless_recording(tape: Path) -> None:
    with pytest.raises(BadInput, match="there is no such cassette; record one with record=True"):
        Cassette(tape, record=False)
    Cassette(tape, record=True)


def test_a_call_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cassette = Cassette(tmp_path / "tape.jsonl", record=True)
    cassette.path = tmp_path / "file" / "tape.jsonl"
    error = failure(cassette.wrap(counting()))
    assert error.code == "internal_error"
    assert "the call cannot be recorded" in error.message


def test_secrets_are_masked_before_anything_is_written(tape: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("hunter22", "[REDACTED:pw]")

    model = ScriptedModel("counter", lambda request: 'it is "hunter22"')
    taped = Cassette(tape, record=True, redact=redact).wrap(model)
    ask(taped, a_request("is it hunter22?"))
    assert "hunter22" not in tape.read_text()
    replayed = ask(player(tape), a_request("is it hunter22?"))
    assert replayed.text == 'it is "[REDACTED:pw]"'


def test_secrets_in_names_of_fields_are_masked_too(tape: Path) -> None:
    parameters = {"type": "object", "properties": {"hunter22": {"type": "string"}}}
    tool = ToolSpec("look_up", "Looks it up.", parameters)
    cassette = Cassette(tape, record=True, redact=lambda text: text.replace("hunter22", "[pw]"))
    ask(cassette.wrap(counting()), a_request(tools=(tool,)))
    assert "hunter22" not in tape.read_text()
    assert ask(player(tape), a_request(tools=(tool,))).text == "answer 1"


def test_a_line_holds_the_request_for_people_to_read(tape: Path) -> None:
    record(tape, a_request("a", temperature=0.5))
    line = json.loads(tape.read_text())
    assert (line["provider"], line["model"]) == ("scripted", "counter")
    assert line["request"]["messages"][1] == {"role": "user", "content": "a"}
    assert line["request"]["temperature"] == 0.5


def test_a_request_that_json_cannot_carry_is_invalid_input(tape: Path) -> None:
    record(tape, a_request())
    assert failure(player(tape), a_request("\ud800")).code == "invalid_input"


# Recordings from before requests had limits of length.

SHORT = OutputSchema("verdict", closed({"reason": text_within(600), "score": {"type": "integer"}}))
LONG = OutputSchema("verdict", closed({"reason": {"type": "string"}, "score": {"type": "integer"}}))


def test_a_question_that_was_recorded_without_limits_is_still_found(tape: Path) -> None:
    record(tape, a_request(output=LONG))
    limited_now = limited(a_request(output=SHORT), 600)
    assert ask(player(tape), limited_now).text == "answer 1"
    assert [reply.text for reply in record(tape, limited_now, limited_now)] == [
        "answer 1",
        "answer 1",
    ]


def test_the_limits_of_others_are_part_of_what_is_asked(tape: Path) -> None:
    record(tape, a_request())
    assert failure(player(tape), a_request(max_tokens=50)).code == "unavailable_model"
