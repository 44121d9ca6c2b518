"""`map_shards`: what comes of shards in their order, from several processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click import Choice

from evalwright.cli.parameters import on_option
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.scans import spread
from evalwright.scans.spread import ENGINES, LocalProcesses, engine_named


def doubled(shard: int) -> tuple[int, int]:
    time.sleep(0.02 * (shard % 3))
    return 2 * shard, os.getpid()


def test_results_come_in_the_order_of_the_shards_from_several_processes() -> None:
    found = list(LocalProcesses(3).map_shards(doubled, range(12)))
    assert [value for value, _ in found] == [2 * n for n in range(12)]
    assert len({pid for _, pid in found}) == 3
    assert os.getpid() not in {pid for _, pid in found}


@pytest.mark.parametrize(("processes", "shards"), [(1, 5), (4, 1), (4, 0)])
def test_what_one_process_can_do_is_done_in_this_one(processes: int, shards: int) -> None:
    found = list(LocalProcesses(processes).map_shards(doubled, range(shards)))
    assert {pid for _, pid in found} <= {os.getpid()}
    assert len(found) == shards


def test_only_a_few_shards_are_asked_for_ahead() -> None:
    asked = 0

    def shards() -> Iterator[int]:
        nonlocal asked
        while True:
            asked += 1
            yield asked

    results = LocalProcesses(2).map_shards(doubled, shards())
    for _ in range(3):
        next(results)
    assert asked <= 3 + 2 * 2
    results.close()


MANY = """
import resource
from evalwright.scans.spread import LocalProcesses
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
print(sum(LocalProcesses(999).map_shards(abs, range(200))))
"""


def test_more_processes_than_the_system_allows_are_as_many_as_it_does() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=False)
    assert done.stdout == f"{sum(range(200))}\n", done.stderr


def killed(shard: int) -> int:
    if shard == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return shard


def test_a_killed_process_is_an_error_and_the_others_end(tmp_path: Path) -> None:
    with pytest.raises(CannotEvaluate, match="was killed; is there enough memory"):
        list(LocalProcesses(2).map_shards(partial(noting, tmp_path, killed), range(50)))
    assert_all_ended(tmp_path)


def refuse(shard: int) -> int:
    if shard == 3:
        raise BadInput("line 3 is no good")
    return shard


def test_an_error_in_a_process_is_raised_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="line 3 is no good"):
        list(LocalProcesses(2).map_shards(partial(noting, tmp_path, refuse), range(50)))
    assert_all_ended(tmp_path)


def endless(shard: int) -> int:
    time.sleep(0 if shard < 2 else 600)
    return shard


def test_who_wants_no_more_results_waits_for_none(tmp_path: Path) -> None:
    results = LocalProcesses(2).map_shards(partial(noting, tmp_path, endless), range(9))
    assert next(results) == 0
    results.close()
    assert_all_ended(tmp_path)


def noting(folder: Path, work, shard: int) -> int:
    (folder / str(os.getpid())).touch()
    result: int = work(shard)
    return result


def assert_all_ended(folder: Path) -> None:
    pids = [int(each.name) for each in folder.iterdir()]
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_without_a_number_there_is_a_process_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "has_threads", lambda: False)
    monkeypatch.setattr(spread, "cores", lambda: 6)
    assert isinstance(engine := engine_named(None, None), LocalProcesses)
    assert engine.processes == 6
    monkeypatch.setattr(spread, "cores", lambda: 96)
    assert isinstance(engine := engine_named(None, None), LocalProcesses)
    assert engine.processes == 8


def test_no_process_is_forked_beside_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "has_threads", lambda: True)
    assert isinstance(engine := engine_named(None, 4), LocalProcesses)
    assert engine.processes == 1


def test_the_command_line_knows_every_engine() -> None:
    option = on_option(lambda: None).__click_params__[0]  # type: ignore[attr-defined]
    assert isinstance(option.type, Choice)
    assert list(option.type.choices) == list(ENGINES)


def test_an_engine_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        ENGINES, "ray", ("evalwright.scans.not_there", "X", "PATH_TO_THE_CLONE[ray]")
    )
    with pytest.raises(
        BadInput, match=r"--on ray: is not installed; pip install 'PATH_TO_THE_CLONE\[ray"
    ):
        engine_named("ray", None)
