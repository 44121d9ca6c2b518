"""Tasks have titles, and rows without an id have names that people can read and type."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.suite import Expected, Task
from evalwright.engine.suites.ids import content_id
from evalwright.engine.task_names import TaskNames, asked, called, slug_of
from evalwright.signals.masking import mask_text

CHECKS = Expected("checks")
KEY = "AKIAQ7ZN4XW2LMPB6TRD"


def row(given: Any, title: str = "", suffix: str = "") -> Task:
    task_id = content_id("row", given, None) + suffix
    return Task(task_id, given, CHECKS, title=title)


def names_of(*tasks: Task) -> list[str]:
    names = TaskNames.of_tasks(tasks)
    return [names.of(task.task_id).name for task in tasks]


@pytest.mark.parametrize(
    ("task_input", "question"),
    [
        ("Where is it?", "Where is it?"),
        ({"order": 7, "question": "Where is it?"}, "Where is it?"),
        ({"Question": "Where is it?"}, "Where is it?"),
        ({"note": "Where is it?"}, "Where is it?"),
        ({"messages": [{"role": "user", "content": "Where is it?"}], "text": "x"}, "Where is it?"),
        (
            [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Yes?"},
                {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]},
                {"role": "assistant", "content": "Let me see"},
            ],
            "Where is it?",
        ),
        (7, "7"),
        ({}, "{}"),
    ],
)
def test_what_is_asked_is_the_question_or_the_last_message_of_the_user(
    task_input: Any, question: str
) -> None:
    assert asked(task_input) == question


def test_a_row_has_a_name_of_its_first_words_and_a_task_with_an_id_keeps_that() -> None:
    question = row({"question": "How long do I have to return a parcel?"})
    named = Task("refund-window", {"question": "How long?"}, CHECKS)
    names = TaskNames.of_tasks([question, named])
    assert re.fullmatch(r"how-long-do-i-have-to-[0-9a-f]{4}", names.of(question.task_id).name)
    assert names.of(named.task_id) == ("refund-window", "How long?")
    assert names.of(row("Hi", title="Greets").task_id) == (row("Hi").task_id, row("Hi").task_id)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("返品の期限はいつですか", "返品の期限はいつですか"),
        ("كم من الوقت؟", "كم-من-الوقت"),
        ("क्या यह ठीक है?", "क्या-यह-ठीक-है"),
        ("../../etc/passwd\x00\u202e<b>", "etc-passwd-b"),
        ("?!…", ""),
    ],
)
def test_names_keep_the_letters_of_any_script_and_nothing_else(text: str, name: str) -> None:
    assert slug_of(text) == name


def test_rows_of_nothing_but_signs_keep_their_ids() -> None:
    assert names_of(row("?!")) == [row("?!").task_id]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=12, unique=True))
def test_names_are_stable_unique_safe_and_lead_back(texts: list[str]) -> None:
    tasks = [row(text) for text in texts]
    found = names_of(*tasks)
    assert len(set(found)) == len(found)
    names = TaskNames.of_tasks(tasks)
    for task, name in zip(tasks, found, strict=True):
        assert names.find(name) == names.find(task.task_id) == task.task_id
        assert not re.search(r"[\s/\\.?#%&<>\"'*\[\]]", name)
        assert name.isprintable()
        assert not name.startswith("-")
        assert called(task.task_id, names.of(task.task_id).title).name == name
        assert names_of(task) == [name]  # whatever else is in the suite


def test_rows_with_the_same_words_and_digits_are_told_apart() -> None:
    tasks = [Task(f"row-a1b2{end}", "How long?", CHECKS) for end in ("00000000", "11111111")]
    again = Task("row-a1b200000000-2", "How long?", CHECKS)
    names = names_of(*tasks, again)
    assert names == ["how-long-a1b200000000", "how-long-a1b211111111", "how-long-a1b2-2"]


def test_ids_that_begin_alike_cost_no_more_than_others() -> None:
    """Ids of one's own may look as if they were made from content, and all begin with zeros."""
    tasks = [Task(f"task-{n:012}", f"What is {n}?", CHECKS) for n in range(3000)]
    reads: list[str] = []
    by_id = {task.task_id: task for task in tasks}
    names = TaskNames(by_id, lambda task_id: reads.append(task_id) or by_id.get(task_id))
    assert [names.of(task.task_id).name for task in tasks[:2]] == [
        "what-is-0-0000",
        "what-is-1-0000",
    ]
    assert all(map(names.of, by_id))
    assert len(reads) == 2 * len(tasks)


def test_a_secret_is_masked_before_a_title_is_cut() -> None:
    text = f"{'word ' * 13}{KEY} is my key"
    assert mask_text(text, personal=False) != text, "else nothing is tested"
    asks = Task("asks", text, CHECKS)
    is_titled = row("Hi", title=f"Uses {KEY}")
    names = TaskNames.of_tasks([asks, is_titled])
    told = "".join(part for task in (asks, is_titled) for part in names.of(task.task_id))
    assert KEY[:6].lower() not in told.lower()
    assert names.find(names.of(is_titled.task_id).name) == is_titled.task_id
