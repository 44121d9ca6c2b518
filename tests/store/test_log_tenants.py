"""Tenants: in the view of one there are only its own runs, whatever is asked of it."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_events import (
    PATIENCE,
    Place,
    a_start,
    an_end,
    an_event,
    asked,
    nobody_can_write,
    numbered,
    opened,
    raw_connection,
    types_of,
    written,
)

from evalwright.contracts.errors import LogConflict, RunBusy, RunNotFound
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.sqlite import schema

pytestmark = pytest.mark.both_databases


ASKS: dict[str, Callable[[EventLog, str], object]] = {
    "read": lambda log, run_id: list(log.read(run_id)),
    "read of a type": lambda log, run_id: list(log.read(run_id, ["run.started"], after=0, limit=1)),
    "edges": lambda log, run_id: log.edges(run_id),
    "is_claimed": lambda log, run_id: log.is_claimed(run_id),
    "claim": lambda log, run_id: log.claim(run_id).__enter__(),
    "run_ids before": lambda log, run_id: log.run_ids(before=run_id),
}


def tenant_in_the_file(path: Place, run_id: str = "run") -> str:
    ((tenant,),) = asked(path, "SELECT tenant FROM runs WHERE run_id = ?", run_id)
    return str(tenant)


# Whose a run is.


def test_a_run_belongs_to_the_tenant_through_whose_view_it_was_entered(
    log: EventLog, path: Place
) -> None:
    log.for_tenant("a").append("appended", [a_start()])
    written(log, "appended")
    with log.for_tenant("b").claim("claimed"):
        pass

    assert tenant_in_the_file(path, "appended") == "a"
    assert tenant_in_the_file(path, "claimed") == "b"


def test_runs_of_the_command_line_are_of_the_tenant_local(log: EventLog, path: Place) -> None:
    log.append("appended", [a_start()])
    written(log, "appended")
    with log.claim("claimed"):
        pass

    assert tenant_in_the_file(path, "appended") == tenant_in_the_file(path, "claimed") == "local"
    assert log.for_tenant("local").run_ids() == ["appended"]


def test_a_log_without_a_tenant_goes_on_with_the_runs_of_all(log: EventLog, path: Place) -> None:
    log.for_tenant("a").append("run", [a_start()])
    written(log.for_tenant("a"))

    log.append("run", [an_event()])
    written(log)
    with log.claim("run"):
        assert log.for_tenant("a").is_claimed("run")

    assert tenant_in_the_file(path) == "a"
    assert len(list(log.read("run"))) == len(list(log.for_tenant("a").read("run"))) == 2


def test_the_nameless_tenant_is_a_tenant_like_any_other(log: EventLog, path: Place) -> None:
    nameless = log.for_tenant("")
    nameless.append("run", [a_start()])
    written(nameless)
    log.append("other", [a_start()])
    written(log, "other")

    assert tenant_in_the_file(path) == ""
    assert nameless.run_ids() == ["run"]


@pytest.mark.sqlite_only
def test_the_runs_of_a_log_from_before_tenants_are_local(path: Place) -> None:
    with raw_connection(path) as old:
        old.executescript((Path(__file__).parent / "written_by_0_1/schema.sql").read_text())
        old.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
        old.execute("INSERT INTO runs VALUES (1, 'ended'), (2, 'open')")
        old.execute("INSERT INTO events VALUES (1, 0, 'run.started', NULL, 5, '{}')")
        old.execute("INSERT INTO events VALUES (1, 1, 'run.completed', NULL, 6, '{}')")
        old.execute("INSERT INTO events VALUES (2, 0, 'run.started', NULL, 7, '{}')")

    log = opened(path)
    local = log.for_tenant("local")
    local.append("open", [an_event()])
    written(local, "open")

    assert local.run_ids() == log.run_ids() == ["open", "ended"]
    assert log.upkeep.abandoned_runs() == [("open", "local")]
    assert [event.at_us for event in local.read("ended")] == [5, 6]
    assert log.for_tenant("a").run_ids() == []
    assert log.records.list("suite", "local") == []
    log.close()
    assert types_of(path, "open") == ["run.started", "agent.decided"]
    with raw_connection(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (6,)


# What is not theirs.


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_run_of_another_tenant_is_answered_as_one_that_does_not_exist(
    log: EventLog, ask: Callable[[EventLog, str], object]
) -> None:
    log.for_tenant("a").append("theirs", [a_start()])
    written(log, "theirs")
    view = log.for_tenant("b")

    answers = []
    for run_id in ("theirs", "absent"):
        if ask is ASKS["claim"] and run_id == "absent":
            continue  # that would enter it
        with pytest.raises(RunNotFound) as refusal:
            ask(view, run_id)
        answers.append(str(refusal.value).replace(run_id, "it"))
    assert set(answers) == {f"there is no run it in {log.place}; see `evalwright runs`"}


@pytest.mark.parametrize("through", ["the same log", "a log opened anew"])
def test_an_append_to_a_run_of_another_tenant_is_refused_and_does_the_run_no_harm(
    path: Place, through: str
) -> None:
    """Also where the writer knows the run's position by heart and need not look it up."""
    log = opened(path)
    owner, intruder = log.for_tenant("a"), log.for_tenant("b")
    owner.append("run", [a_start()])
    written(owner)
    if through == "a log opened anew":
        log.close()
        log = opened(path)
        owner, intruder = log.for_tenant("a"), log.for_tenant("b")

    intruder.append("run", [an_event("agent.reasoned")])
    with pytest.raises(
        LogConflict, match=r"run run in .*: the run does not belong to tenant b; choose"
    ):
        written(intruder)
    with pytest.raises(LogConflict, match="not belong to tenant b"):
        intruder.append("run", [an_event("agent.reasoned")])

    owner.append("run", [an_event()])
    written(owner)
    log.append("run", [an_end()])
    written(log)
    log.close()
    assert types_of(path) == ["run.started", "agent.decided", "run.completed"]
    assert tenant_in_the_file(path) == "a"


def test_of_tenants_that_enter_one_id_at_once_the_first_has_it(log: EventLog, path: Place) -> None:
    a, b = log.for_tenant("a"), log.for_tenant("b")
    with nobody_can_write(path):
        a.append("run", [a_start()])
        b.append("run", [an_event("agent.reasoned")])
        a.append("run", [an_end()])
    written(a)
    with pytest.raises(LogConflict):
        written(b)

    assert types_of(path) == ["run.started", "run.completed"]
    assert (a.run_ids(), b.run_ids()) == (["run"], [])


def test_a_run_that_lost_events_takes_no_more_in_any_view_that_has_it(log: EventLog) -> None:
    a, b = log.for_tenant("a"), log.for_tenant("b")
    a.append("run", [a_start(), an_end()])
    a.append("run", [an_event()])
    for view in (a, log):
        with pytest.raises(LogConflict, match="has not ended"):
            written(view)
        with pytest.raises(LogConflict, match="has not ended"):
            view.append("run", [an_event()])

    written(b)  # to whom nothing is said of it


def test_what_the_log_of_all_lost_is_lost_for_the_tenant(log: EventLog) -> None:
    a = log.for_tenant("a")
    a.append("run", [a_start()])
    written(a)
    log.append("run", [an_event("eval.scored", None)])
    with pytest.raises(LogConflict):
        written(log)

    with pytest.raises(LogConflict):
        a.append("run", [an_event()])


def test_watchers_and_observers_of_a_tenant_hear_of_its_runs_alone(log: EventLog) -> None:
    heard: defaultdict[str, list[str]] = defaultdict(list)

    def told(name: str) -> Callable[..., None]:
        return lambda *what: heard[name].extend(event.body.decode() for event in what[-1])

    for tenant in ("a", "b"):
        view = log.for_tenant(tenant)
        view.watch("run", told(f"watcher of {tenant}"))
        view.observe(told(f"observer of {tenant}"))
    log.watch("run", told("watcher of all"))
    log.observe(told("observer of all"))

    log.for_tenant("a").append("run", numbered(0))
    log.for_tenant("b").append("other", numbered(5))
    log.append("run", [*numbered(1), an_end()])
    written(log)

    assert heard == {
        "watcher of a": ["0", "1", "{}"],
        "observer of a": ["0", "1", "{}"],
        "watcher of all": ["0", "1", "{}"],
        "observer of b": ["5"],
        "observer of all": ["0", "5", "1", "{}"],
    }


def test_a_claim_is_one_for_all_views_of_a_run(log: EventLog) -> None:
    with log.for_tenant("a").claim("run"):
        for view in (log, log.for_tenant("a")):
            assert view.is_claimed("run")
            with pytest.raises(RunBusy), view.claim("run"):
                pass
        with pytest.raises(RunNotFound), log.for_tenant("b").claim("run"):
            pass


# Whatever is done.

TENANTS = ("a", "b", "c")
RUNS = ("one", "two", "three", "four")
examples = count()
EVENTS = {"start": a_start(), "step": an_event(), "end": an_end()}
deeds = st.lists(
    st.tuples(st.sampled_from(TENANTS), st.sampled_from(RUNS), st.sampled_from(list(EVENTS))),
    max_size=25,
)


class Model:
    """Who has which events, by the rules of the log."""

    def __init__(self, example: int) -> None:
        self._example = example
        self.owners: dict[str, str] = {}
        self.events: defaultdict[str, list[NewEvent]] = defaultdict(list)
        self.refused: set[tuple[str, str]] = set()

    def append(self, tenant: str, run_id: str, event: NewEvent) -> None:
        if (tenant, run_id) in self.refused:
            return
        owner = self.owners.setdefault(run_id, tenant)
        if owner != tenant or self.has_ended(run_id):
            self.refused.add((tenant, run_id))
        else:
            self.events[run_id].append(event)

    def name(self, short: str) -> str:
        """A name that no other example has in the same log."""
        return f"{short}-{self._example}"

    def has_ended(self, run_id: str) -> bool:
        return EVENTS["end"] in self.events[run_id]

    def runs_of(self, tenant: str) -> list[str]:
        return [run_id for run_id, owner in self.owners.items() if owner == tenant]


@given(tries=deeds, pace=st.sampled_from(["one by one", "in groups"]))
def test_every_tenant_sees_its_own_runs_and_no_other(
    shared_log: EventLog, tries: list[tuple[str, str, str]], pace: str
) -> None:
    model = Model(example=next(examples))
    for who, which, what in tries:
        tenant, run_id, event = model.name(who), model.name(which), EVENTS[what]
        with suppress(LogConflict):
            shared_log.for_tenant(tenant).append(run_id, [event])
        model.append(tenant, run_id, event)
        if pace == "one by one":
            shared_log.flush(run_id).exception(PATIENCE)

    for who in TENANTS:
        assert_it_sees(shared_log.for_tenant(model.name(who)), model.name(who), model)
    assert shared_log.run_ids(limit=len(model.owners)) == list(reversed(model.owners))


def assert_it_sees(view: EventLog, tenant: str, model: Model) -> None:
    for run_id in map(model.name, RUNS):
        is_refused = view.flush(run_id).exception(PATIENCE) is not None
        assert is_refused == ((tenant, run_id) in model.refused)
    own = model.runs_of(tenant)
    assert view.run_ids() == own[::-1]
    assert view.upkeep.abandoned_runs() == [
        (run_id, tenant) for run_id in own if not model.has_ended(run_id)
    ]
    for run_id in own:
        assert [(event.type, event.body) for event in view.read(run_id)] == [
            (event.type, event.body) for event in model.events[run_id]
        ]
        assert len(view.edges(run_id)) == min(4, len(model.events[run_id]))
        assert not view.is_claimed(run_id)
        with view.claim(run_id):
            assert view.is_claimed(run_id)
    for run_id in set(model.owners) - set(own):
        for ask in ASKS.values():
            with pytest.raises(RunNotFound):
                ask(view, run_id)
