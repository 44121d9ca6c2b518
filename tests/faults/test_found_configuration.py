"""A configuration file that was merely found cannot say where keys and data go."""

import io
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import evalwright as ew
from builders import a_suite
from evalwright.cli.output import Streams
from evalwright.cli.trust import command
from evalwright.contracts.errors import BadInput
from evalwright.models.config import Config, load_config
from evalwright.models.trust import TrustedFolder, TrustedFolders, fingerprint
from providers import FakeProvider, failing, fake_provider
from subjects.command import Evalwright, Finished, subject

KEY = {"OPENAI_API_KEY": "a-key-of-the-user-1234567890", "DEPLOY_TOKEN": "another-1234567890"}
RIGHT = ["--agent", f"{subject('answers.py')}:yes"]


class Listener:
    """A provider that notes which keys it is sent."""

    def __init__(self, provider: FakeProvider) -> None:
        self._provider = provider
        self.url = f"{provider.url}/v1"

    @property
    def keys(self) -> set[str]:
        return {call.headers["Authorization"] for call in self._provider.calls}


@pytest.fixture
def listener() -> Iterator[Listener]:
    with fake_provider(failing(400)) as provider:
        yield Listener(provider)


@pytest.fixture
def project(evalwright: Evalwright) -> Evalwright:
    """A folder with a suite that a judge scores."""
    rubric = [{"criterion": "It agrees.", "weight": 1}]
    task = {"taskId": "one", "input": 1, "expected": {"kind": "rubric", "rubric": rubric}}
    suite = {
        "suiteId": "acme.shop.evals.yes",
        "version": "1.0.0",
        "modes": ["rubric"],
        "tasks": [task],
    }
    evalwright.suite(suite)
    (evalwright.folder / "prompt.md").write_text("# Greet\n\nGreet the customer by name.\n")
    return evalwright


def judged(project: Evalwright, *more: str, env: dict[str, str] | None = None) -> Finished:
    judge = ["--judge", "openai:gpt-4.1-mini"]
    return project("run", "suite.json", *RIGHT, *judge, *more, env={**KEY, **(env or {})})


def diverting(listener: Listener) -> str:
    return f'[models.openai]\nbase_url = "{listener.url}"\nkey_env = "DEPLOY_TOKEN"\nretries = 0\n'


@pytest.fixture
def usual() -> Iterator[dict[str, str]]:
    """Where calls go without the file: to an address of the user's own, not to OpenAI itself."""
    with fake_provider(failing(400)) as provider:
        yield {"OPENAI_BASE_URL": f"{provider.url}/v1"}


def test_a_found_file_cannot_send_a_key_anywhere(
    project: Evalwright, listener: Listener, usual: dict[str, str]
) -> None:
    (project.folder / "evalwright.toml").write_text(diverting(listener))
    below = project.folder / "a" / "b"
    below.mkdir(parents=True)
    (below / "suite.json").write_bytes((project.folder / "suite.json").read_bytes())
    for folder in (project.folder, below):
        done = project(
            *("run", "suite.json", *RIGHT, "--judge", "openai:x"),
            env={**KEY, **usual},
            cwd=folder,
        )
        assert not listener.keys
        assert done.err.count("[models] ignored, because its folder is not trusted") == 1
        assert f"evalwright trust {project.folder}" in done.err
        assert "--config" in done.err


@pytest.mark.parametrize("how", ["named", "trusted"])
def test_what_the_user_chose_counts(project: Evalwright, listener: Listener, how: str) -> None:
    file = project.folder / "evalwright.toml"
    file.write_text(diverting(listener))
    if how == "trusted":
        done = project("trust")
        assert done.code == 0, done.err
        assert f"calls go to {listener.url} with the key in DEPLOY_TOKEN" in done.out
    done = judged(project, *(["--config", str(file)] if how == "named" else []))
    assert listener.keys == {"Bearer another-1234567890"}, done.err
    assert "ignored" not in done.err
    said = f"calls to openai go to {listener.url}, not to https://api.openai.com/v1"
    assert done.err.count(said) == 1


def test_the_users_own_file_counts_and_the_one_that_a_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "config" / "evalwright" / "evalwright.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[models.openai]\nkey_env = "OWN"\n')
    assert load_config(tmp_path).models["openai"].key_env == "OWN"
    named = tmp_path / "named.toml"
    named.write_text('[models.openai]\nkey_env = "NAMED"\n')
    monkeypatch.setenv("EVALWRIGHT_CONFIG", str(named))
    assert load_config(tmp_path).models["openai"].key_env == "NAMED"
    monkeypatch.delenv("EVALWRIGHT_CONFIG")
    platformdirs = pytest.importorskip("platformdirs")
    place = platformdirs.user_config_path("evalwright", appauthor=False)
    assert place / "evalwright.toml" == own


def test_variables_are_the_users_own_and_said_once(project: Evalwright, listener: Listener) -> None:
    done = judged(project, env={"OPENAI_BASE_URL": listener.url})
    assert listener.keys == {f"Bearer {KEY['OPENAI_API_KEY']}"}
    assert done.err.count("not to https://api.openai.com/v1 (OPENAI_BASE_URL)") == 1


def test_a_trusted_file_that_sends_keys_elsewhere_is_trusted_again(tmp_path: Path) -> None:
    file = tmp_path / "evalwright.toml"
    file.write_text('[models.openai]\nbase_url = "https://gateway.example/v1"\n')
    trust(str(tmp_path))
    assert load_config(tmp_path).models
    for change in ('base_url = "https://elsewhere.example/v1"', 'key_env = "DEPLOY_TOKEN"'):
        file.write_text(f"[models.openai]\n{change}\n")
        config = load_config(tmp_path)
        assert config.models == {}
        reason = "it has changed where keys and data go since its folder was trusted"
        assert reason in str(config.notices[0])
    trust(str(tmp_path))
    assert load_config(tmp_path).models


def test_a_trusted_file_that_has_prompts_judged_elsewhere_is_trusted_again(tmp_path: Path) -> None:
    file = tmp_path / "evalwright.toml"
    file.write_text('[tiers.2]\nmodels = ["ollama:phi4"]\n')
    trust(str(tmp_path))
    assert load_config(tmp_path).tiers
    file.write_text('[tiers.2]\nmodels = ["openrouter:somebody/model"]\n')
    config = load_config(tmp_path)
    assert config.tiers == {}
    assert "it has changed where keys and data go" in str(config.notices[0])


def test_other_changes_keep_the_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "evalwright.toml"
    file.write_text('[models.acme]\nkind = "openai"\nbase_url = "https://a.example"\n')
    trust(str(tmp_path))
    file.write_text(
        '# a comment\n[models.acme]\nkind = "openai"\nbase_url = "https://a.example"\nretries = 1\n'
        "[tiers.2]\nruns = 2\n"
    )
    config = load_config()
    assert config.notices == ()
    assert config.models["acme"].retries == 1
    assert config.tiers["2"].runs == 2


def trust(*arguments: str) -> str:
    """`evalwright trust` in this process; gives what it prints."""
    printed = io.BytesIO()
    before = Streams.out
    Streams.out = io.TextIOWrapper(printed, "utf-8")
    try:
        with command.make_context("trust", list(arguments)) as context:
            command.invoke(context)
        return printed.getvalue().decode()
    finally:
        Streams.out = before


def test_of_a_folder_that_is_not_trusted_only_the_names_of_secrets_count(tmp_path: Path) -> None:
    (tmp_path / "evalwright.toml").write_text(
        'secrets = ["SHOP_PASSWORD"]\n'
        "[models.openai]\nconcurrency = 1000\n"
        '[prices."openai:gpt-4.1"]\ninput_per_million = 0\noutput_per_million = 0\n'
        '[tiers.2]\nmodels = ["openai:gpt-4.1"]\n'
        '[host]\njudges = ["openai:gpt-4.1"]\notlp_endpoint = "https://a.example"\n'
    )
    config = load_config(tmp_path)
    source = str(tmp_path / "evalwright.toml")
    assert config == Config(secrets=("SHOP_PASSWORD",), source=source, notices=config.notices)
    (notice,) = config.notices
    assert str(notice).startswith(f"{source}: [models], [prices], [tiers], [host] ignored")


def test_a_file_of_secrets_alone_needs_no_trust(tmp_path: Path) -> None:
    (tmp_path / "evalwright.toml").write_text('secrets = ["SHOP_PASSWORD"]\n')
    assert load_config(tmp_path).notices == ()


def test_the_users_own_file_is_below_a_trusted_one(tmp_path: Path) -> None:
    own = tmp_path / "config" / "evalwright" / "evalwright.toml"
    own.parent.mkdir(parents=True)
    own.write_text('secrets = ["A"]\n[models.openai]\nretries = 1\n[models.vllm]\nretries = 1\n')
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "evalwright.toml").write_text('secrets = ["B"]\n[models.openai]\nretries = 2\n')
    config = load_config(folder)
    assert (config.secrets, config.models["openai"].retries) == (("A", "B"), 1)
    trust(str(folder))
    config = load_config(folder)
    assert {name: each.retries for name, each in config.models.items()} == {"openai": 2, "vllm": 1}
    assert load_config(folder, named=folder / "evalwright.toml").secrets == ("B",)


# Files that somebody else may have written.


def test_a_file_of_another_user_is_not_read(
    project: Evalwright, listener: Listener, usual: dict[str, str], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    file = tmp_path / "evalwright.toml"
    file.write_text("this is not even TOML")
    os.chown(file, 12345, 12345)
    done = judged(project, env=usual)
    assert "evalwright.toml: not read, because it belongs to another user" in done.err
    with pytest.raises(BadInput, match="cannot be trusted, because it belongs to another user"):
        trust(str(tmp_path))
    file.write_text(diverting(listener))
    assert load_config(named=file).models


def test_a_link_of_another_user_is_not_followed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    mine = tmp_path / "mine.toml"
    mine.write_text('secrets = ["A"]\n')
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "evalwright.toml"
    link.symlink_to(mine)
    assert load_config(tmp_path / "folder").secrets == ("A",)
    os.lchown(link, 12345, 12345)
    config = load_config(tmp_path / "folder")
    assert (config.secrets, len(config.notices)) == ((), 1)


def test_a_file_that_everybody_may_write_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "evalwright.toml").write_text('secrets = ["OUTER"]\n')
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "evalwright.toml"
    file.write_text('secrets = ["INNER"]\n')
    file.chmod(0o666)
    config = load_config(folder)
    assert config.secrets == ("OUTER",)
    assert "every user may write to it" in str(config.notices[0])
    file.chmod(0o664)  # of a group of one's own, as many systems make them
    assert load_config(folder).secrets == ("INNER",)


def test_in_its_own_folder_the_users_file_is_not_called_a_found_one(tmp_path: Path) -> None:
    own = tmp_path / "config" / "evalwright" / "evalwright.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[models.openai]\nretries = 1\n")
    config = load_config(own.parent)
    assert (config.models["openai"].retries, config.notices) == (1, ())


def test_without_a_home_nothing_in_the_working_folder_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as of a user without a home
    place = tmp_path / "~" / ".config" / "evalwright"
    place.mkdir(parents=True)
    (place / "evalwright.toml").write_text('[models.openai]\nkey_env = "DEPLOY_TOKEN"\n')
    assert load_config() == Config()
    (tmp_path / "evalwright.toml").write_text("[models.openai]\nretries = 1\n")
    shipped = TrustedFolders(Path("trusted"))
    shipped.add(TrustedFolder(str(tmp_path), fingerprint(load_config(named="evalwright.toml"))))
    assert shipped.get(tmp_path) is None


def test_a_home_that_is_no_folder_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    assert load_config(tmp_path) == Config()


# The list of trusted folders.


def test_trust_is_listed_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evalwright.toml").write_text("[models.openai]\nretries = 1\n")
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert trust("--list") == ""
    trust(str(tmp_path / "link"))
    assert trust("--list") == f"{tmp_path.resolve()}\n"
    trust("--remove")  # of the nearest file, above
    assert trust("--list") == ""
    with pytest.raises(BadInput, match="is not trusted"):
        trust("--remove", str(tmp_path))


def test_a_folder_may_be_named_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "evalwright.toml"
    with pytest.raises(BadInput, match=f"there is no evalwright.toml in {tmp_path}; name"):
        trust(str(file))
    file.write_text("[models.openai]\nretries = 1\n")
    trust(str(file))
    assert trust("--list") == f"{tmp_path.resolve()}\n"
    trust("--remove", str(file))
    assert trust("--list") == ""


def test_the_list_is_the_users_alone(tmp_path: Path) -> None:
    (tmp_path / "evalwright.toml").write_text("[models.openai]\nretries = 1\n")
    trust(str(tmp_path))
    (file,) = TrustedFolders().place.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert load_config(tmp_path).notices == ()
    file.chmod(0o622)  # now others may have written it
    assert load_config(tmp_path).notices
    file.chmod(0o600)
    file.write_text("not JSON")
    assert load_config(tmp_path).notices
    assert TrustedFolders().all() == []


def test_without_a_file_there_is_nothing_to_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in ([], [str(tmp_path)], ["nowhere"]):
        with pytest.raises(BadInput, match=r"there is no evalwright\.toml"):
            trust(*arguments)


def test_trust_of_one_folder_is_not_of_another(tmp_path: Path) -> None:
    inner = tmp_path / "vendor"
    inner.mkdir()
    for folder in (tmp_path, inner):
        (folder / "evalwright.toml").write_text("[models.openai]\nretries = 1\n")
    trust(str(tmp_path))
    assert load_config(tmp_path).notices == ()
    assert load_config(inner).notices
    config = load_config(tmp_path)
    assert len(fingerprint(config)) == 64


# The other commands, and Python.


def test_prompts_are_not_judged_by_models_that_a_found_file_names(project: Evalwright) -> None:
    rules = [{"json": {}}]
    (project.folder / "judge.json").write_text(json.dumps(rules))
    file = project.folder / "evalwright.toml"
    file.write_text('[tiers.2]\nmodels = ["scripted:judge.json"]\n')
    ignored = project("prompts", "prompt.md")
    assert "[tiers] ignored" in ignored.err
    assert "no model is configured" in ignored.err
    named = project("prompts", "prompt.md", "--config", "evalwright.toml")
    assert "no model is configured" not in named.err


def test_a_host_does_not_take_its_settings_from_a_file_it_found(evalwright: Evalwright) -> None:
    (evalwright.folder / "evalwright.toml").write_text('[host]\njudges = ["openai:gpt-4.1"]\n')
    process = evalwright.start("serve", "--port", "0", "--db", "host.db")
    lines = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line.decode())
        if "listening on" in lines[-1]:
            break
    assert any("[host] ignored" in line for line in lines), lines
    named = evalwright("serve", "--port", "0", "--db", "b.db", "--config", "evalwright.toml")
    assert named.code == 2  # it has no key for its judge
    assert "OPENAI_API_KEY" in named.err


def test_from_python_a_found_file_does_not_count_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evalwright.toml").write_text('[models.ollama]\nbase_url = "https://a.example"\n')
    with pytest.warns(UserWarning, match=r"\[models\] ignored"):
        ew.run(a_suite(tasks=1), lambda task: "yes", db=tmp_path / "log.db")
    ew.run(a_suite(tasks=1), lambda task: "yes", db="log.db", config="evalwright.toml")


def test_the_demo_takes_nothing_from_the_folder_it_runs_in(evalwright: Evalwright) -> None:
    (evalwright.folder / "evalwright.toml").write_text("not TOML")
    assert evalwright("demo").code == 0
