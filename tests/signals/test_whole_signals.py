"""All signals of many traces, every field of them, compared with what is kept in `expected/`.

`signals.json` holds each signal once, `traces.json` the names of those that a trace shows: the
beginnings of their hashes, so that a change shows only where it is.
"""

import json
from hashlib import sha256

from invented_traces import pairs
from whole_outputs import assert_as_expected, plain

from evalwright.signals.kinds import detect


def told(signal):
    """A signal in one line: nothing of it is left out."""
    said = plain(signal)
    details = said.pop("details")
    refs = said.pop("evidence_refs")
    proof = [[value for value in each.values() if value is not None] for each in refs]
    filled = {key: value for key, value in details.items() if value}
    return json.dumps([*said.values(), filled, proof], ensure_ascii=False)


def test_the_signals_of_every_trace_are_the_same_in_all_their_fields():
    known = {}
    shown = {}
    for name, pair in pairs().items():
        signals = {sha256(each.encode()).hexdigest()[:8]: each for each in map(told, detect(*pair))}
        known.update(signals)
        shown[name] = " ".join(signals)
    assert_as_expected("traces", shown)
    assert_as_expected("signals", {name: json.loads(known[name]) for name in sorted(known)})
