"""kill -9 at any moment loses no acknowledged event and leaves a whole log."""

import random
from pathlib import Path

import pytest
from log_events import Place, opened
from log_processes import a_child

pytestmark = pytest.mark.both_databases


BIG = 3000  # bytes in a body with which the log grows fast enough to be checkpointed


@pytest.mark.sqlite_only
@pytest.mark.parametrize("role", ["acknowledge_flushed", "acknowledge_watched"])
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_writer_loses_no_acknowledged_event(path: Place, role: str, seed: int) -> None:
    chance = random.Random(f"{role} {seed}")
    length = 0
    for _ in range(3):  # each goes on in what the one before has left
        with a_child(role, path, length, chance.choice([0, BIG])) as child:
            heard = [child.hear() for _ in range(chance.randrange(1, 250))]
            heard += child.kill()

        length = whole_length(path)
        assert length >= int(heard[-1])


@pytest.mark.sqlite_only
def test_a_log_that_was_killed_at_any_write_of_its_creation_is_opened_and_used(
    tmp_path: Path,
) -> None:
    """SIGXFSZ kills at the very write that reaches the limit: half of a page, half of a journal."""
    limits = range(0, 180_000, 3_100)
    with a_child("die_while_creating", tmp_path, *limits) as child:
        outcomes = [child.hear() for _ in limits]

    assert outcomes[0] == "True 1"
    assert outcomes[-1] == "False 1"  # the last limits are beyond all that is written
    assert {outcome.split()[1] for outcome in outcomes} == {"1"}


@pytest.mark.sqlite_only
def test_a_writer_that_is_killed_at_any_write_loses_no_acknowledged_event(tmp_path: Path) -> None:
    limits = range(150_000, 277_000, 3_571)
    with a_child("die_while_appending", tmp_path, *limits) as child:
        outcomes = [child.hear().split() for _ in limits]

    assert {died for died, _, _ in outcomes} == {"True"}
    assert all(int(found) >= int(acknowledged) for _, acknowledged, found in outcomes)
    assert int(outcomes[-1][1]) > int(outcomes[0][1])


def whole_length(path: Place) -> int:
    """How many events the run has; fails unless each is in its place."""
    log = opened(path)
    events = list(log.read("run"))
    log.close()
    assert [(event.sequence, int(event.body)) for event in events] == [
        (number, number) for number in range(len(events))
    ]
    return len(events)
