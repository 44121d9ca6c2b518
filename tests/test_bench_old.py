"""`make bench-old`: what this tree is measured beside, and what makes it fail."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

OLD = Path(__file__).parents[1] / "benchmarks" / "old"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(OLD), *sys.path])
    for path in [*OLD.glob("*.py"), *OLD.parent.glob("*.py")]:
        # Tests and other scripts have modules of the same names; they come back afterwards.
        monkeypatch.setitem(sys.modules, path.stem, None)
        del sys.modules[path.stem]
    return importlib.import_module("bench")


@pytest.fixture
def repository(tmp_path, monkeypatch, bench):
    """A repository of three commits; the second and the last have a tag."""
    _git(tmp_path, "init", "-q")
    for number in range(3):
        _git(tmp_path, "commit", "-q", "--allow-empty", "-m", str(number))
        if number:
            _git(tmp_path, "tag", f"v0.{number}")
    monkeypatch.setattr(sys.modules["trees"], "ROOT", tmp_path)
    return tmp_path


def _git(folder, *command):
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    told = ["git", *author, *command]
    return subprocess.run(told, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_the_last_tag_before_this_commit_is_what_counts(bench, repository):
    before = _git(repository, "rev-parse", "HEAD^").strip()
    assert bench.old_commit(None) == ("v0.1", before)
    assert bench.old_commit("HEAD")[1] == _git(repository, "rev-parse", "HEAD").strip()


def test_a_clone_without_tags_goes_by_the_file(bench, repository, monkeypatch, capsys):
    first = _git(repository, "rev-parse", "HEAD^^").strip()
    _git(repository, "tag", "-d", "v0.1", "v0.2")
    named = repository / "last_tag"
    named.write_text(f"v9 {first}\n")
    monkeypatch.setattr(sys.modules["trees"], "NAMED", named)
    assert bench.old_commit(None) == ("v9", first)
    assert "no tags here" in capsys.readouterr().err


def test_without_the_commit_nothing_is_measured_and_the_way_out_is_told(
    bench, repository, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["bench.py", "--old", "v7"])
    assert bench.main() == 2
    assert "git fetch --tags --unshallow" in capsys.readouterr().err


@pytest.mark.parametrize(("new", "code"), [(1.2, 0), (1.3, 1)])
def test_the_short_form_fails_above_the_limit(bench, monkeypatch, tmp_path, new, code):
    monkeypatch.setattr(sys, "argv", ["bench.py", "--short", "--only", "one task"])
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench, "old_commit", lambda asked: ("v0.1", "abc"))
    monkeypatch.setattr(bench, "old_tree", lambda commit: Path("old"))
    monkeypatch.setattr(bench, "this_tree", lambda: Path("new"))
    monkeypatch.setattr(
        bench, "take", lambda job, inputs, tree, place: {"old": 1}.get(str(tree), new)
    )
    assert bench.main() == code
