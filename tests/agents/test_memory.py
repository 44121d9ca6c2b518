"""Memory: what a task seeds is what its agent remembers, without secrets and without the past."""

import copy
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_suite, a_task
from evalwright.agents.load import load_agent
from evalwright.agents.toolbox import Memory
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.suite import Fixtures
from strategies import json_values
from subjects.endpoint import answer, serving
from subjects.runs import Workshop

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = "sk-live-0123456789"


def an_entry(entry_id: str = "m1", content: str = "likes e-mail", **more: Any) -> dict[str, Any]:
    return {"id": entry_id, "content": content} | more


def remembered(*entries: dict[str, Any], now: datetime = NOON, **secrets: str) -> Memory:
    return Memory.seeded(Fixtures(memory_seed=list(entries)), Redactor(secrets), now)


def seeding(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"memorySeed": list(entries)}


entries = st.dictionaries(st.text(max_size=5), json_values, max_size=3)


@given(st.lists(entries.filter(lambda entry: "expiresAt" not in entry), max_size=4))
def test_an_agent_remembers_what_was_seeded(seed: list[dict[str, Any]]) -> None:
    assert remembered(*seed) == seed


@pytest.mark.parametrize("fixtures", [None, Fixtures()], ids=["no fixtures", "no seed"])
def test_without_a_seed_there_is_nothing_to_remember(fixtures: Fixtures | None) -> None:
    assert Memory.seeded(fixtures) == []


def test_an_entry_is_found_by_its_id() -> None:
    memory = remembered(an_entry("m1"), an_entry("m2", "is in Ulm"), {"content": "has no id"})
    assert memory.get("m2") == an_entry("m2", "is in Ulm")
    assert memory.get("m3") is None


# Whose it is.


def test_what_an_agent_does_to_its_memory_stays_with_it() -> None:
    fixtures = Fixtures(memory_seed=[an_entry(tags=["a"])])
    before = copy.deepcopy(fixtures)
    first = Memory.seeded(fixtures)
    first[0]["tags"].append("b")
    first.append(an_entry("m2"))
    assert Memory.seeded(fixtures) == before.memory_seed
    assert fixtures == before


def test_no_task_sees_the_memory_of_another(workshop: Workshop) -> None:
    tasks = [
        a_task("task-1", value=["a"], fixtures=seeding(an_entry("a"))),
        a_task("task-2", value=["b"], fixtures=seeding(an_entry("b"))),
        a_task("task-3", value=[]),
    ]

    def agent(task: Any) -> list[str]:
        seen = [entry["id"] for entry in task.memory]
        task.memory.append(an_entry("from another"))
        return seen

    assert workshop.run(a_suite(tasks), agent, concurrency=3).summary.passed_count == 3


# Secrets.


def test_a_known_secret_is_not_remembered() -> None:
    seed = an_entry("m1", f"the key is {KEY}", source={"url": f"https://x.example/?k={KEY}"})
    (entry,) = remembered(seed, SHOP_KEY=KEY)
    assert entry == {
        "id": "m1",
        "content": "the key is [REDACTED:SHOP_KEY]",
        "source": {"url": "https://x.example/?k=[REDACTED:SHOP_KEY]"},
    }


@given(st.lists(entries, max_size=4), st.text("ab", min_size=8, max_size=9))
def test_no_entry_holds_a_known_secret(seed: list[dict[str, Any]], secret: str) -> None:
    told = [*seed, an_entry(content=f"<{secret}>", **{secret: secret})]
    assert secret not in json.dumps(remembered(*told, KEY=secret))


# Time.

END = {
    "a minute ago": ("2026-03-01T11:59:00Z", False),
    "just now": ("2026-03-01T12:00:00Z", False),
    "in a moment": ("2026-03-01T12:00:00.000001Z", True),
    "an hour ago, elsewhere": ("2026-03-01T13:00:00+02:00", False),
    "in an hour, elsewhere": ("2026-03-01T11:00:00-02:00", True),
    "small letters": ("2026-03-01t11:59:00z", False),
    "a day without a time": ("2026-03-01", False),
    "a time without a zone is UTC": ("2026-03-01T12:00:01", True),
}


@pytest.mark.parametrize(("expires_at", "is_there"), END.values(), ids=END)
def test_an_entry_whose_time_is_over_is_not_remembered(expires_at: str, *, is_there: bool) -> None:
    memory = remembered(an_entry("m1", expiresAt=expires_at), an_entry("m2"))
    assert (memory.get("m1") is not None) is is_there
    assert memory.get("m2") is not None


@pytest.mark.parametrize("expires_at", ["soon", "", None, 0, ["2000-01-01"], "2026-02-30"])
def test_what_is_no_time_ends_nothing(expires_at: Any) -> None:
    assert len(remembered(an_entry(expiresAt=expires_at))) == 1


zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=zones), st.datetimes(timezones=zones))
def test_an_entry_is_remembered_until_its_time_wherever_that_is(
    end: datetime, now: datetime
) -> None:
    memory = remembered(an_entry(expiresAt=end.isoformat()), now=now)
    assert bool(memory) is (end > now)


# Agents outside this process.


def test_an_agent_behind_an_address_is_sent_its_memory_without_the_past(
    workshop: Workshop,
) -> None:
    seed = seeding(an_entry("old", expiresAt="2001-01-01T00:00:00Z"), an_entry("m1"))
    with serving(lambda _: answer("yes")) as endpoint:
        workshop.run(a_suite([a_task(fixtures=seed)]), load_agent(endpoint.url))
    (request,) = endpoint.requests
    assert request.body["fixtures"] == {"memorySeed": [an_entry("m1")]}
