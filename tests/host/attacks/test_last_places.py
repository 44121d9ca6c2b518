"""Bounds that many requests reach at the same moment."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders import a_suite
from evalwright.host.library import annotations
from host.caller import Caller

AT_ONCE = 12


def test_the_last_place_for_an_annotation_is_given_once(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = caller.evaluate(a_suite(1))
    monkeypatch.setattr(annotations, "MOST_PER_RUN", 1)
    start = threading.Barrier(AT_ONCE)
    path = f"/v1/runs/{run_id}/annotations"

    def annotate(_: int) -> int:
        start.wait()
        return caller.post(path, {"signal": {"kind": "flag"}}).status

    with ThreadPoolExecutor(AT_ONCE) as threads:
        statuses = Counter(threads.map(annotate, range(AT_ONCE)))
    assert statuses == {201: 1, 409: AT_ONCE - 1}
    monkeypatch.undo()
    assert len(caller.get(path).json()["annotations"]) == 1
