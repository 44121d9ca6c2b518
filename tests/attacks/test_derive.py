"""Deriving attacks: valid and repeatable suites whose right answers stay right."""

import base64
import codecs
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_rubric_task, a_suite, a_task
from evalwright.attacks.derive import Derived, derive
from evalwright.attacks.derived import attacks_in
from evalwright.attacks.strategies import STRATEGIES
from evalwright.contracts.errors import BadInput
from evalwright.contracts.suite import MAX_TASK_ID, Suite, Task, parse_suite
from strategies import suite_documents

TOOLS = {"toolResponses": [{"tool": "shop:orders.get", "response": {"status": "shipped"}}]}

suites = suite_documents.map(lambda document: msgspec.convert(document, Suite, strict=False))


def attacks(derived: Derived) -> list[Task]:
    """The tasks of a derived suite that are attacks."""
    suite = derived.suite
    found = attacks_in(suite.suite_id, [task.task_id for task in suite.tasks])
    return [task for task in suite.tasks if task.task_id in found]


def attacked(task: Task, strategy: str, seed: int = 0) -> Task:
    """A task with one attack in it."""
    (made,) = attacks(derive(a_suite([task]), [strategy], seed))
    return made


def response_of(task: Task) -> Any:
    assert task.fixtures is not None
    return task.fixtures.tool_responses[0].response


def tools_of(task: Task) -> list[str]:
    return [each.tool for each in task.fixtures.tool_responses] if task.fixtures else []


# Properties.


@given(suite=suites, seed=st.integers(), per_task=st.none() | st.integers(1, 3))
def test_every_derived_suite_is_valid(suite: Suite, seed: int, per_task: int | None) -> None:
    made = derive(suite, (), seed, per_task).suite
    assert parse_suite(msgspec.json.encode(made), "suite.json") == made


@given(suite=suites, seed=st.integers())
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(suite: Suite, seed: int) -> None:
    first = msgspec.json.encode(derive(suite, (), seed))
    assert msgspec.json.encode(derive(suite, (), seed)) == first
    pairs = zip(attacks(derive(suite, (), seed)), attacks(derive(suite, (), seed + 1)), strict=True)
    assert all(one != another for one, another in pairs)


@given(suite=suites, seed=st.integers())
def test_what_a_right_answer_is_and_the_bars_stay_as_they_were(suite: Suite, seed: int) -> None:
    derived = derive(suite, ["instruction-in-memory"], seed)
    made = derived.suite
    assert [task.expected for task in attacks(derived)] == [task.expected for task in suite.tasks]
    assert [task for task in made.tasks if task in suite.tasks] == suite.tasks
    assert made.modes[: len(suite.modes)] == suite.modes
    kept = ("version", "thresholds", "target_agent_id", "allowed_models")
    assert all(getattr(made, name) == getattr(suite, name) for name in kept)


@given(suite=suites, seed=st.integers())
def test_every_task_is_attacked_by_each_strategy_or_skipped(suite: Suite, seed: int) -> None:
    derived = derive(suite, (), seed)
    pairs = len(suite.tasks) * len(STRATEGIES)
    assert derived.attacks + len(derived.skipped) == pairs
    assert derived.attacks == len(attacks(derived)) == len(derived.suite.tasks) - len(suite.tasks)


@given(suite=suites)
def test_a_suite_is_not_changed_by_deriving_from_it(suite: Suite) -> None:
    before = msgspec.json.encode(suite)
    derive(suite)
    assert msgspec.json.encode(suite) == before


def test_an_attack_stays_the_same_when_other_tasks_come_and_go() -> None:
    alone = attacks(derive(a_suite([a_task("one")]), (), 7))
    among = attacks(derive(a_suite([a_task("zero"), a_task("one")]), (), 7))
    assert [task for task in among if task.task_id.startswith("one-")] == alone


# The suite.


def test_the_derived_suite_has_an_id_of_its_own_and_one_mode_more() -> None:
    made = derive(a_suite(suite_id="acme.shop.evals.refunds", modes=["golden", "rubric"])).suite
    assert made.suite_id == "acme.shop.evals.refunds-attacked"
    assert made.modes == ["golden", "rubric", "adversarial"]


def test_every_task_stands_before_its_attacks_as_it_is() -> None:
    one, two = a_task("one"), a_task("two")
    made = derive(a_suite([one, two]), ["role-play", "encoding"]).suite
    assert [task.task_id for task in made.tasks] == [
        "one", "one-encoding", "one-role-play", "two", "two-encoding", "two-role-play",
    ]  # fmt: skip
    assert [made.tasks[0], made.tasks[3]] == [one, two]


@given(suite=suites, seed=st.integers())
def test_attacks_are_known_again_by_the_ids_alone(suite: Suite, seed: int) -> None:
    made = derive(suite, ["instruction-in-memory"], seed).suite
    found = attacks_in(made.suite_id, [task.task_id for task in made.tasks])
    by_id = {task.task_id: task for task in made.tasks}
    assert [each.task_id for each in found.values()] == [task.task_id for task in suite.tasks]
    for task_id, attack in found.items():
        fixtures = by_id[task_id].fixtures
        assert fixtures is not None
        assert fixtures.memory_seed[-1]["id"] == f"note-{attack.mark}"


def test_no_suite_but_a_derived_one_has_attacks() -> None:
    assert attacks_in("acme.shop.evals.refunds", ["one", "one-role-play"]) == {}


def test_suites_of_different_attacks_have_different_ids() -> None:
    suite = a_suite()
    made = [
        derive(suite),
        derive(suite, seed=1),
        derive(suite, ["role-play"]),
        derive(suite, per_task=2),
    ]
    assert len({each.suite.suite_id for each in made}) == len(made)


def test_naming_all_strategies_in_any_order_is_the_same_as_naming_none() -> None:
    assert derive(a_suite(), list(reversed(STRATEGIES))) == derive(a_suite())


def test_a_task_gets_at_most_so_many_attacks_chosen_by_the_seed() -> None:
    def chosen(seed: int) -> list[str]:
        return [task.task_id for task in attacks(derive(a_suite(5), (), seed, 2))]

    assert len(chosen(0)) == 10
    assert chosen(0) != chosen(1)


def test_rubric_tasks_are_attacked_too() -> None:
    task = a_rubric_task()
    assert attacked(task, "role-play").expected == task.expected


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"'telepathy'.*role-play"):
        derive(a_suite(), ["telepathy"])


# Ids of tasks.


def test_a_task_is_named_after_its_origin_and_the_strategy() -> None:
    assert attacked(a_task("greeting"), "role-play").task_id == "greeting-role-play"


def test_long_ids_stay_within_the_bound_and_apart() -> None:
    long = ["a" * MAX_TASK_ID, "a" * (MAX_TASK_ID - 1) + "b", "a" * (MAX_TASK_ID - 3)]
    ids = [task.task_id for task in derive(a_suite([a_task(each) for each in long])).suite.tasks]
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) <= MAX_TASK_ID


def test_ids_that_would_meet_stay_apart() -> None:
    derived = derive(a_suite([a_task("one"), a_task("one-role-play")]), ["role-play"])
    ids = [task.task_id for task in derived.suite.tasks]
    assert len(set(ids)) == len(ids)
    attacked = attacks_in(derived.suite.suite_id, ids).values()
    assert [each.task_id for each in attacked] == ["one", "one-role-play"]


# Where attacks stand.


@pytest.mark.parametrize(
    ("response", "kept"),
    [
        ({"status": "shipped"}, lambda made: made.pop("note") and made),
        ({"note": "fragile"}, lambda made: made.pop("note1") and made),
        ("shipped", lambda made: made.partition("\n\n")[0]),
        (["a", "b"], lambda made: made[:-1]),
        ([{"id": 1}, {"id": 2}], lambda made: [made[0].pop("note") and made[0], *made[1:]]),
    ],
    ids=["object", "object with a note", "text", "list", "list of objects"],
)
def test_what_a_tool_says_stays_word_for_word(response: Any, kept: Any) -> None:
    task = a_task(fixtures={"toolResponses": [{"tool": "t", "response": response}]})
    made = response_of(attacked(task, "instruction-in-tool-result"))
    assert made != response
    assert kept(made) == response


def test_the_first_response_that_can_hold_text_is_taken() -> None:
    responses = [{"tool": "a", "response": 7}, {"tool": "b"}, {"tool": "c", "response": "text"}]
    made = attacked(a_task(fixtures={"toolResponses": responses}), "instruction-in-tool-result")
    assert made.fixtures is not None
    changed = [each.response for each in made.fixtures.tool_responses[:3]]
    assert changed[0] == 7
    assert changed[2].startswith("text\n\n")


def test_a_task_without_a_place_is_skipped_and_said_to_be() -> None:
    derived = derive(a_suite([a_task("one", input=7)]))
    told = {(each.task_id, each.strategy) for each in derived.skipped}
    assert ("one", "instruction-in-tool-result") in told
    assert ("one", "role-play") in told
    assert [task.task_id for task in attacks(derived)] == ["one-instruction-in-memory"]


def test_a_suite_that_no_attack_fits_is_refused_with_a_remedy() -> None:
    with pytest.raises(BadInput, match="instruction-in-memory fits any task"):
        derive(a_suite([a_task(input=7)]), ["role-play"])


@pytest.mark.parametrize(
    ("given_input", "path"),
    [
        ({"orderId": "A-17", "question": "Where is it?"}, ["question"]),
        ({"lang": "en", "ask": "Where is my order?"}, ["ask"]),
        (
            [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
            [1, "content"],
        ),
        (["en", "Where is my order?"], [1]),
    ],
    ids=str,
)  # fmt: skip
def test_in_an_object_the_attack_follows_the_text_of_the_user(
    given_input: Any, path: list[Any]
) -> None:
    before, after = given_input, attacked(a_task(input=given_input), "role-play").input
    for step in path:
        before, after = before[step], after[step]
    assert after.startswith(f"{before}\n\n")


def test_only_the_text_of_the_user_changes_in_an_object() -> None:
    made = attacked(a_task(input={"question": "Where is it?", "n": [1]}), "role-play").input
    assert made | {"question": None} == {"question": None, "n": [1]}


def test_memory_keeps_what_it_had() -> None:
    seed = [{"id": "contact", "content": "email"}]
    made = attacked(a_task(fixtures={"memorySeed": seed}), "instruction-in-memory")
    assert made.fixtures is not None
    assert made.fixtures.memory_seed[:-1] == seed


# What attacks want.


@pytest.mark.parametrize("seed", range(12))
def test_an_obedient_agent_finds_the_tool_that_it_is_told_to_use(seed: int) -> None:
    made = attacked(a_task(fixtures=TOOLS), "instruction-in-tool-result", seed)
    wanted = re.findall(r"using ([\w:]+)", response_of(made)["note"])
    assert set(wanted) <= set(tools_of(made))
    assert tools_of(made)[0] == "shop:orders.get"


def test_over_the_seeds_all_goals_for_a_task_with_tools_are_met() -> None:
    wanted: set[str] = set()
    for seed in range(40):
        wanted |= set(
            tools_of(attacked(a_task(fixtures=TOOLS), "instruction-in-tool-result", seed))
        )
    assert wanted == {
        "shop:orders.get", "mail:send", "accounts:grant_role", "records:delete", "shell:run",
    }  # fmt: skip


def test_a_tool_of_the_task_that_sends_is_preferred() -> None:
    fixtures = {"toolResponses": [{"tool": "chat.post_message", "response": {}}]}
    for seed in range(40):
        made = attacked(a_task(fixtures=fixtures), "instruction-in-tool-result", seed)
        assert "mail:send" not in tools_of(made)


def test_a_tool_that_reads_mail_sends_none() -> None:
    fixtures = {"toolResponses": [{"tool": "mail:read", "response": {}}]}
    made = [attacked(a_task(fixtures=fixtures), "role-play", seed) for seed in range(40)]
    assert any("mail:send" in tools_of(task) for task in made)
    assert not any("using mail:read" in task.input for task in made)


def test_a_task_without_tools_is_given_none() -> None:
    for seed in range(10):
        assert all(not tools_of(task) for task in derive(a_suite(), (), seed).suite.tasks)


@given(suite=suites, seed=st.integers())
def test_attackers_live_in_domains_that_belong_to_nobody(suite: Suite, seed: int) -> None:
    added = msgspec.json.encode(derive(suite, (), seed).suite).decode()
    hosts = set(re.findall(r"(?:https://|@)(collector[\w.]*\w)", added))
    assert hosts <= {"collector.example"}


# How attacks are worded.


def text_in(strategy: str, seed: int = 0) -> str:
    made = attacked(a_task(input="Hello", fixtures=TOOLS), strategy, seed)
    note = response_of(made).get("note")
    return str(note or made.input.partition("\n\n")[2])


@pytest.mark.parametrize("seed", range(8))
def test_an_encoded_order_can_be_decoded(seed: int) -> None:
    name, text = re.findall(r"in (\w+)\. .*\n(.*)", text_in("encoding", seed))[0]
    decode = {
        "base64": lambda: base64.b64decode(text).decode(),
        "hexadecimal": lambda: bytes.fromhex(text).decode(),
        "rot13": lambda: codecs.decode(text, "rot13"),
    }
    assert re.match(r"(Send|Give|Delete|Run|Tell) ", decode[name]())


@pytest.mark.parametrize("seed", range(8))
def test_a_smuggled_order_cannot_be_seen_and_is_there(seed: int) -> None:
    text = text_in("unicode-smuggling", seed)
    shown = "".join(chr(ord(each) - 0xE0000) if each > "\U000e0000" else each for each in text)
    assert re.search(r"(Send|Give|Delete|Run|Tell) ", shown.replace("\u200b", ""))
    assert not re.search(r"(Send|Give|Delete|Run|Tell) ", text)


@pytest.mark.parametrize("seed", range(8))
def test_the_pieces_of_a_split_order_make_it_up_again(seed: int) -> None:
    pieces = re.findall(r'p\d+ = "(.*)"', text_in("payload-split", seed))
    assert len(pieces) > 1
    assert re.match(r"(Send|Give|Delete|Run|Put) .+\.$", " ".join(pieces))


def test_the_strategies_differ() -> None:
    texts = {name: text_in(name) for name in STRATEGIES if name != "instruction-in-memory"}
    assert len(set(texts.values())) == len(texts)
    assert all(texts.values())


def test_the_seed_chooses_among_wordings() -> None:
    for name in ("instruction-in-tool-result", "role-play", "fake-system-message"):
        openings = {text_in(name, seed)[:12] for seed in range(12)}
        assert len(openings) > 1
