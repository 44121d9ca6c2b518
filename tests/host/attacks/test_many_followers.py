"""Many clients that want to see where a run stands."""

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack
from functools import partial

import pytest

from builders import a_suite, a_task
from evalwright.host.states import LONG_LOG, Standing, States
from evalwright.host.v1 import events
from host.caller import Caller
from host.server import GATED
from subjects.waiting import Journal

FOLLOWERS = 12


def test_where_a_run_stands_is_found_out_once_for_all_who_follow_it(
    caller: Caller, gate: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[Standing] = Counter()
    make = events._state_frame

    def counted(log, standing: Standing) -> bytes:
        made[standing] += 1
        return make(log, standing)

    monkeypatch.setattr(events, "_state_frame", counted)
    suite = a_suite([a_task("task-1", input="wait"), a_task("task-2")])
    run_id = caller.start(suite, agent_id=GATED)
    gate.wait_for(2)
    path = f"/v1/runs/{run_id}/events?streamMode=values"
    with ExitStack() as open_streams:
        streams = [open_streams.enter_context(caller.stream(path)) for _ in range(FOLLOWERS)]
        for stream in streams:
            assert next(iter(stream)).data["status"] == "running"
        gate.open_gate()
        ends = [list(stream)[-1] for stream in streams]
    assert {end.data["status"] for end in ends} == {"completed"}
    assert set(made.values()) == {1}


# What is kept.


def standing(sequence: int = 0, **more: str) -> Standing:
    return Standing(
        **{"partition": "acme", "run_id": "run_1", "status": "running", **more}, sequence=sequence
    )


def test_a_state_is_one_of_its_tenant_run_event_and_status() -> None:
    async def ask() -> list[bytes]:
        states = States()
        kinds = [
            standing(),
            standing(1),
            standing(partition="other"),
            standing(run_id="run_2"),
            standing(status="paused"),
        ]
        return [await states.get(kind, lambda kind=kind: repr(kind).encode()) for kind in kinds * 2]

    told = asyncio.run(ask())
    assert told[:5] == told[5:]
    assert len(set(told)) == 5


@pytest.mark.parametrize("sequence", [0, LONG_LOG], ids=["short", "long"])
def test_a_state_is_made_once_however_many_ask_at_the_same_time(sequence: int) -> None:
    threads: list[int] = []

    def make() -> bytes:
        threads.append(threading.get_ident())
        return b"state"

    async def ask() -> list[bytes]:
        states = States()
        asked = [states.get(standing(sequence), make) for _ in range(FOLLOWERS)]
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [b"state"] * FOLLOWERS
    assert len(threads) == 1
    assert (threads[0] == threading.get_ident()) == (sequence < LONG_LOG)


@pytest.mark.parametrize("sequence", [0, LONG_LOG], ids=["short", "long"])
def test_a_state_that_could_not_be_made_is_made_when_it_is_asked_for_again(sequence: int) -> None:
    def fail() -> bytes:
        raise OSError("the disk is gone")

    async def ask() -> bytes:
        states = States()
        with pytest.raises(OSError, match="the disk is gone"):
            await states.get(standing(sequence), fail)
        return await states.get(standing(sequence), lambda: b"state")

    assert asyncio.run(ask()) == b"state"


def test_who_leaves_does_not_take_a_state_away_from_the_others() -> None:
    release = threading.Event()

    def make() -> bytes:
        release.wait()
        return b"state"

    async def ask() -> bytes:
        states = States()
        leaves, stays = (
            asyncio.create_task(states.get(standing(LONG_LOG), make)) for _ in range(2)
        )
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait((leaves,))
        release.set()
        assert leaves.cancelled()
        return await stays

    assert asyncio.run(ask()) == b"state"


def test_no_more_states_are_kept_than_the_bound_allows() -> None:
    made: list[int] = []

    def make(sequence: int) -> bytes:
        made.append(sequence)
        return b"state"

    async def ask() -> None:
        states = States(most=2)
        for sequence in (0, 1, 2, 2, 1, 0):
            await states.get(standing(sequence), partial(make, sequence))

    asyncio.run(ask())
    assert made == [0, 1, 2, 0]
