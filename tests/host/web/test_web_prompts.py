"""Prompts on the pages: pushed by the command, listed worst first, read with their findings."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import msgspec
import pytest

from evalwright.contracts.prompt_result import PromptResult
from evalwright.contracts.times import iso_time
from evalwright.host.library.prompts import MOST_EVALUATIONS, PromptLibrary
from evalwright.host.web.pages import prompts as prompts_page
from evalwright.prompts.evaluate import lint_files
from evalwright.store.records import LOCAL_TENANT
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller
from host.web.visitor import Visitor
from subjects.command import Evalwright

POOR = "Do something with the stuff.\n"
BETTER = (
    "# Task\n\nSummarise the text in three points.\n\n# Form\n\nA JSON list of three strings.\n"
)
LINK = re.compile(r'href="(/prompts/file\?path=[^"]+)"')


@pytest.fixture
def library(evalwright: Evalwright) -> Evalwright:
    """A folder with two prompts."""
    folder = evalwright.folder / "prompts"
    folder.mkdir()
    (folder / "better.md").write_text(BETTER)
    (folder / "poor.md").write_text(POOR)
    return evalwright


@pytest.fixture
def result(tmp_path: Path) -> PromptResult:
    """What the linter says of one prompt."""
    (tmp_path / "poor.md").write_text(POOR)
    (found,) = lint_files([tmp_path / "poor.md"])
    return found


def evaluations_in(page: str) -> int:
    """How many evaluations the history of a prompt has."""
    return page.partition("<h2>History</h2>")[2].count('class="result is-')


def pushed(library: Evalwright, caller: Caller, *more: str) -> None:
    done = library(
        "prompts", "prompts", "-t", "0", "--push", caller.url, *more,
        env={"EVALWRIGHT_KEY": str(caller.key)},
    )  # fmt: skip
    assert done.code == 1, done.err
    assert "pushed: 2 prompts" in done.err


def test_pushed_prompts_are_listed_worst_first(
    library: Evalwright, visitor: Visitor, newcomer: Caller
) -> None:
    assert "No prompts yet" in visitor.get("/prompts").text
    pushed(library, newcomer)
    text = visitor.get("/prompts").text
    assert text.index("poor.md") < text.index("better.md")
    assert "2 prompts, worst first" in text
    assert 'data-prompt="prompts&#x2f;poor.md"' in text
    assert 'data-prompt="prompts&#x2f;poor.md"' not in visitor.get("/prompts?text=better").text
    assert "No prompt fits" in visitor.get("/prompts?status=error").text


def test_a_file_has_a_page_with_findings_in_its_text_and_its_history(
    library: Evalwright, visitor: Visitor, newcomer: Caller
) -> None:
    pushed(library, newcomer)
    (library.folder / "prompts" / "poor.md").write_text(
        f"{POOR}\nUse api_key=Zx81kLmNopQ29 there.\n"
    )
    pushed(library, newcomer)
    text = visitor.get("/prompts/file?path=prompts/poor.md").text
    assert "Do something with the" in text
    assert re.search(r">Error</span><span class=\"strong\">PE401</span>", text)
    assert "Zx81kLmNopQ29" not in text
    assert evaluations_in(text) == 2
    (before,) = re.findall(r'href="(/prompts/file[^"]+at=[^"]+)"', text)
    earlier = visitor.get(unescape(before))
    assert "This is an earlier evaluation" in earlier.text
    assert "PE401" not in earlier.text


def test_the_same_results_again_change_nothing(
    visitor: Visitor, newcomer: Caller, result: PromptResult
) -> None:
    body = {"results": [msgspec.to_builtins(result)], "texts": {result.input.path: POOR}}
    for _ in range(2):
        assert newcomer.send("POST", "/v1/prompts/results", body).status == 200
    (address,) = LINK.findall(visitor.get("/prompts").text)
    assert evaluations_in(visitor.get(unescape(address)).text) == 1


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"timestamp": "soon"}, "$.results[0].timestamp"),
        ({"threshold": 101}, "$.results[0]"),
        ({"input": {"path": "", "type": "markdown"}}, "$.results[0].input.path"),
        ({"scores": "high"}, "$.results[0]"),
    ],
)
def test_what_is_no_result_is_refused_with_its_place(
    newcomer: Caller, result: PromptResult, change: dict[str, object], place: str
) -> None:
    body = {"results": [{**msgspec.to_builtins(result), **change}]}
    answer = newcomer.send("POST", "/v1/prompts/results", body)
    assert answer.status == 400
    assert answer.json()["details"]["problems"][0]["path"] == place


def test_a_prompt_is_removed_with_its_history(
    library: Evalwright, visitor: Visitor, newcomer: Caller
) -> None:
    pushed(library, newcomer)
    visitor.get("/prompts/file?path=prompts/poor.md")
    assert visitor.post("/prompts/remove", {"path": "prompts/poor.md"}).location == "/prompts"
    assert "poor.md" not in visitor.get("/prompts").text
    assert visitor.get("/prompts/file?path=prompts/poor.md").status == 404


def test_who_may_only_read_finds_no_button_and_is_refused(
    with_scopes: Callable[..., Visitor], newcomer: Caller, library: Evalwright
) -> None:
    pushed(library, newcomer)
    reader = with_scopes("some-reader", "prompts:read")
    assert "Remove" not in reader.get("/prompts").text
    assert "poor.md" not in reader.get("/prompts").text  # of another tenant
    assert reader.post("/prompts/remove", {"path": "prompts/poor.md"}).status == 403


@pytest.mark.parametrize("path", [" spaces around ", "right\u202eto\u200bleft.md", "a&b=c?d#e%2f"])
def test_a_prompt_is_found_and_removed_whatever_its_path(
    visitor: Visitor, newcomer: Caller, result: PromptResult, path: str
) -> None:
    entry = msgspec.to_builtins(result) | {"input": {"path": path, "type": "markdown"}}
    assert newcomer.send("POST", "/v1/prompts/results", {"results": [entry]}).status == 200
    (address,) = LINK.findall(visitor.get("/prompts").text)
    page = visitor.get(unescape(address)).text
    (removal,) = re.findall(r'action="(/prompts/remove[^"]*)"', page)
    assert visitor.post(unescape(removal)).status == 303
    assert visitor.get(unescape(address)).status == 404


def test_hostile_paths_and_texts_are_shown_as_text(
    visitor: Visitor, newcomer: Caller, result: PromptResult
) -> None:
    path = "<img src=x onerror=alert(1)>.md"
    entry = msgspec.to_builtins(result) | {"input": {"path": path, "type": "markdown"}}
    body = {"results": [entry], "texts": {path: "<script>alert(1)</script>"}}
    assert newcomer.send("POST", "/v1/prompts/results", body).status == 200
    listing = visitor.get("/prompts").text
    (address,) = LINK.findall(listing)
    for text in (listing, visitor.get(unescape(address)).text):
        assert "<img src=x" not in text
        assert "<script>" not in text


def test_a_long_library_is_paged_on_the_server(
    visitor: Visitor, newcomer: Caller, result: PromptResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts_page, "AT_ONCE", 2)
    entry = msgspec.to_builtins(result)
    entries = [entry | {"input": {"path": f"{n}.md", "type": "markdown"}} for n in range(5)]
    assert newcomer.send("POST", "/v1/prompts/results", {"results": entries}).status == 200
    seen, address = [], "/prompts"
    while address:
        text = visitor.get(address).text
        seen.append(LINK.findall(text))
        following = re.search(r'href="([^"]+)" rel="next"', text)
        address = unescape(following[1]) if following else ""
    assert [len(each) for each in seen] == [2, 2, 1]
    assert len({path for each in seen for path in each}) == 5

    first = newcomer.send("GET", "/v1/prompts?limit=3").json()
    rest = newcomer.send("GET", f"/v1/prompts?after={first['next']}").json()
    told = [each["path"] for page in (first, rest) for each in page["prompts"]]
    assert told == [f"{n}.md" for n in range(5)]


def test_of_a_file_the_latest_evaluations_are_kept(tmp_path: Path, result: PromptResult) -> None:
    log = SqliteLog(tmp_path / "log.db")
    library = PromptLibrary(log.records)
    for n in range(MOST_EVALUATIONS + 3):
        at = iso_time((n + 1) * 1_000_000)
        again = msgspec.structs.replace(result, eval_id=f"e{n}", timestamp=at)
        library.keep(LOCAL_TENANT, [again], {})
    path = result.input.path
    kept = library.evaluations(LOCAL_TENANT, path)
    assert len(kept) == MOST_EVALUATIONS
    assert kept[0][1].results[0].eval_id == f"e{MOST_EVALUATIONS + 2}"

    late = msgspec.structs.replace(result, eval_id="late", timestamp=iso_time(30_500_000))
    library.keep(LOCAL_TENANT, [late], {})  # pushed after later ones
    found = library.summary(LOCAL_TENANT, path)
    assert found is not None
    assert found.at_us == (MOST_EVALUATIONS + 3) * 1_000_000
    log.close()


def test_a_push_without_a_key_says_which_variable(library: Evalwright) -> None:
    done = library("prompts", "prompts", "-t", "0", "-q", "--push", "http://127.0.0.1:1")
    assert done.code == 2
    assert "EVALWRIGHT_KEY" in done.err


def test_an_address_without_its_scheme_is_refused_and_becomes_no_file(library: Evalwright) -> None:
    done = library("prompts", "prompts", "-t", "0", "-q", "--push", "localhost:8787")
    assert done.code == 2
    assert "http://localhost:8787" in done.err
    assert not (library.folder / "localhost:8787").exists()


def test_a_host_that_is_not_there_is_exit_code_3_and_reports_are_written(
    library: Evalwright,
) -> None:
    done = library(
        "prompts", "prompts", "-t", "0", "-q", "-o", "r.json", "--push", "http://127.0.0.1:1",
        env={"EVALWRIGHT_KEY": "ew_aaaaaaaaaaaaaaaa_" + "a" * 43},
    )  # fmt: skip
    assert done.code == 3, done.err
    assert (library.folder / "r.json").is_file()


def test_a_path_with_a_nul_is_refused_by_name(result: PromptResult, newcomer: Caller) -> None:
    path = msgspec.structs.replace(result.input, path="a\0b.md")
    told = msgspec.to_builtins(msgspec.structs.replace(result, input=path))
    answer = newcomer.post("/v1/prompts/results", {"results": [told]})
    assert answer.status == 400
    assert "none of them may be NUL" in str(answer.json())
