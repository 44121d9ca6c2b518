"""`evalwright show --evidence`: what the evidence of a run is worth, in three lines."""

import json

from subjects.command import Evalwright


def test_evidence_is_told_in_a_sentence_each_and_what_is_unknown_is_left_out(
    evalwright: Evalwright,
) -> None:
    tasks = [{"id": f"t{n}", "input": "?", "checks": [{"contains": "yes"}]} for n in range(8)]
    suite = {"evalwright": 1, "name": "desk", "tasks": tasks}
    (evalwright.folder / "desk.json").write_text(json.dumps(suite))
    (evalwright.folder / "agent.py").write_text('def answer(task):\n    return "yes, it is so"\n')
    evalwright("run", "desk.json", "--agent", "agent.py:answer", "--repeat", "2")
    shown = evalwright("show", "latest", "--evidence")
    assert (shown.code, shown.err) == (0, "")
    power, noticed = shown.out.splitlines()[0], shown.out.splitlines()[-1]
    assert power.startswith("power    With 2 repeats on each side, 8 tasks find a drop of")
    assert noticed.startswith("noticed ")
    assert "damaged answers were noticed" in noticed
    found = evalwright("show", "--evidence", "--json").json()
    assert found.keys() == {"power", "noticed"}
    assert found["power"]["repeats"] == 2
    assert found["noticed"]["noticed"] < found["noticed"]["counted"]
    refused = evalwright("show", "latest", "--evidence", "--tasks")
    assert (refused.code, "--evidence" in refused.err) == (2, True)
