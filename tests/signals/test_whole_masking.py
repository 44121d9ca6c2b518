"""What masking, suppressions and the helpers of the detectors give, compared in full."""

# ruff: noqa: E501 (a table is read by its lines)

from datetime import date

import msgspec
import pytest
import sensitive_texts as texts
from invented_traces import KEY, RESPONSES
from unseen_domains import ORDERS, SETTINGS
from whole_outputs import assert_as_expected, plain

from comparing import a_response
from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.report import (
    BothSides,
    Divergence,
    EvidenceRef,
    FailedAssertion,
    Item,
    Security,
    Signal,
    SignalDetails,
    Suppressed,
)
from evalwright.signals import outbound, user_request, written_values
from evalwright.signals import tool_words as tool_names
from evalwright.signals.execution import dangerous
from evalwright.signals.injection import fit, instructions, verbs
from evalwright.signals.injection.authority import UserRequest
from evalwright.signals.masking import credentials, mask_bytes, mask_capture, mask_value
from evalwright.signals.masking.masked_report import mask_item, mask_signals
from evalwright.signals.scan import BaselineTraces, scan_traces
from evalwright.signals.suppression import Suppression, Suppressions, parse_suppressions

PASSWORD = "DB_PASSWORD=Tr0ub4dor&3"
NESTED = [
    {"a": [KEY, {"b": KEY}], KEY: 1, "n": None, "t": True, "f": 1.5},
    {"ann@acme.test": 1, "bob@acme.test": 2, "x": {"ann@acme.test": [3]}, "c@acme.test": 4},
    {"card": 4539578763621486, "other": 45395787636214867, "minus": -4539578763621486},
    [4539578763621486.0, 4539578763621486, "4539578763621486"],
    '{"password": "Tr0ub4dor&3", "inner": "{\\"api_key\\": \\"' + KEY + '\\"}"}',
    {"password": "Tr0ub4dor&3", "token": "q8ZrW1xvK2mnP3tU", "é": f"ü{KEY}ü", "again": "xq8ZrW1xvK2mnP3tUx"},
    {"plain": ["nothing", {"to": "see"}]},
    None, 7, "", [], {}, "ann@acme.test", KEY, f"x{KEY} {KEY} {KEY}x",
]  # fmt: skip


def test_nested_values_are_masked_wherever_the_secret_stands():
    found = {f"{place:02}": [mask_value(each)] for place, each in enumerate(NESTED)}
    deep = []
    for _ in range(3000):
        deep = [deep]
    found["deep"] = [mask_value(deep)]
    found["no JSON"] = [mask_value(object())]
    assert_as_expected("masked-values", found)


def test_bytes_and_captures_are_masked_in_their_encoding():
    given = [
        f"k {KEY} é".encode(code)
        for code in ("utf-8", "latin-1", "utf-16", "utf-16-le", "utf-16-be")
    ]
    given += [b'{"card": 4539578763621486}', b'{"card": 4539578763621486', b"\xff\xfe" + "é, ann@acme.test".encode(), b"", b"\0\0a",
              b'{"a@b.test": 1, "c@d.test": "e@f.test"}', "nothing here".encode("utf-16-le"), b"\xe9" + KEY.encode() + b"\xe9\x80"]  # fmt: skip
    found = {
        f"{place:02}": [repr(mask_capture(each)), repr(mask_bytes(each))]
        for place, each in enumerate(given)
    }
    assert_as_expected("masked-bytes", found)


def test_what_is_shaped_like_a_credential_is_masked_for_the_host():
    given = [
        *texts.told(), "sk-" + "abcdefgh1", "sk-" + "abcdefg", "ew_live_abcdefgh", "Bearer abc", "a?b=c", "https://u:p@h/x?y", "plain",
        "token = 'abc'", "gh" + "p_abc", "xo" + "xb-1", "say ?", "eyJ" + "a.b.c", "Cookie: a", "API_KEY: b'abc'", "Signature=1",
    ]  # fmt: skip
    found = {
        f"{place:02}": [
            credentials.mask_strictly(each), credentials.mask_reason(each), credentials.mask_log_text(each),
            credentials.mask_json_strictly(msgspec.json.encode({"k": each})), str(credentials.may_hold_credential(each)),
        ]
        for place, each in enumerate(given)
    }  # fmt: skip
    assert_as_expected("masked-credentials", found)
    assert credentials.mask_reason(None) is None
    value = {"sk-" + "abcdefgh1": ["sk-" + "abcdefgh2", 7, None, True, {"a": KEY}]}
    assert credentials.mask_strings_strictly(value) == {
        "[masked:credential]": ["[masked:credential]", 7, None, True, {"a": mask_value(KEY)}]
    }


def a_signal(text: str, **changes) -> Signal:
    details = SignalDetails(
        tool=f"tool {text}", call_id=f"call {text}", action_id=f"action {text}", fields=(f"field {text}", "b"),
        urls=(f"url {text}", "c"), provenance={f"key {text}": "user", "d": f"origin {text}"}, rule="rule/x", notes=f"notes {text}",
    )  # fmt: skip
    refs = (
        EvidenceRef("tool_call", call_id=f"ref {text}", index=3),
        EvidenceRef("retrieval_doc", id=f"doc {text}", index=4),
    )
    made = Signal("high_risk_action", "high", "low", f"title {text}", details, refs)
    return msgspec.structs.replace(made, **changes)


BARE = Signal(
    "pii_in_output", "low", "high", "t", SignalDetails(), (EvidenceRef("message", index=1),)
)


def test_every_text_of_a_signal_is_masked():
    assert_as_expected(
        "masked-signals",
        {"signals": [plain(each) for each in mask_signals([a_signal(KEY), BARE, a_signal("x")])]},
    )


PLACES = (
    "title",
    "tool",
    "call_id",
    "action_id",
    "notes",
    "fields",
    "urls",
    "provenance key",
    "provenance",
    "ref id",
    "ref call_id",
)


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_in_one_text_of_a_signal_is_enough(place):
    changes = {
        "fields": {"fields": (KEY,)}, "urls": {"urls": (KEY,)}, "provenance key": {"provenance": {KEY: "user"}},
        "provenance": {"provenance": {"a": KEY}},
    }.get(place, {place: KEY})  # fmt: skip
    if place == "title":
        signal = msgspec.structs.replace(BARE, title=KEY)
    elif place.startswith("ref "):
        ref = EvidenceRef("tool_call", **{place.removeprefix("ref "): KEY})
        signal = msgspec.structs.replace(BARE, evidence_refs=(ref,))
    else:
        signal = msgspec.structs.replace(BARE, details=SignalDetails(**changes))
    (shown,) = mask_signals([signal])
    assert KEY not in str(shown)
    assert "[masked:aws-access-key-id#" in str(shown)


def test_signals_without_secrets_stay_the_same_objects():
    given = (a_signal("x"), BARE)
    assert all(one is other for one, other in zip(mask_signals(given), given, strict=True))


def an_item(text: str, **more) -> Item:
    held = Suppressed(a_signal(text), f"reason {text}", "2027-01-01")
    failed = FailedAssertion("name", {"expected": text}, [f"actual {text}"], f"message {text}")
    return Item(
        "one", f"title {text}", True, False, "regressed", False, ("rule",), BothSides(1, 2),
        BothSides(Security((a_signal(text),), True, (held, held)), Security((BARE,), False)), None,
        BothSides((failed, failed), (failed,)), BothSides(None, None), BothSides((), ("a",)), **more,
    )  # fmt: skip


def test_every_text_of_an_item_is_masked():
    parted = Divergence(2, "reason", 1, None, f"baseline {KEY}", None)
    full = an_item(KEY, faults=(f"fault {KEY}", "x"), first_divergence=parted)
    other = an_item(KEY, first_divergence=Divergence(2, "reason", None, 1, None, f"new {KEY}"))
    found = {name: plain(mask_item(each)) for name, each in
             (("bare", an_item("x")), ("masked", an_item(KEY)), ("full", full), ("other", other))}  # fmt: skip
    assert_as_expected("masked-items", found)


DOCUMENTS = [
    "[]", "suppressions: 1", "{}", "suppressions: []", "suppressions: [1]\nmore: 2", "suppressions: [{}]",
    "suppressions: [{kind: high_risk_acton, reason: r, expires: '2027-01-01'}]", "suppressions: [{kind: zzz, reason: '', expires: x}]",
    "suppressions: [{kind: high_risk_action, reason: r, expires: '20270101', side: both, tool: 1, reasn: x}]",
    "suppressions: [{kind: 7, reason: ' ', expires: '2027-02-30', case: '', rule: [], zzz: 1}]",
    "suppressions: [{kind: pii_in_output, reason: r, expires: '2027-01-01', side: new, tool: t, rule: u, case: c}]",
    "suppressions:\n- {kind: pii_in_output, reason: r, expires: '2027-01-01'}\n- {kind: pii_in_output, expires: '2027-1-1'}",
]  # fmt: skip


def problems_of(document: str):
    try:
        return [plain(each) for each in parse_suppressions(document.encode(), "s.yaml").entries]
    except InvalidDocument as error:
        return [
            str(error),
            *[plain(vars(each) if hasattr(each, "__dict__") else each) for each in error.problems],
        ]


def test_a_suppression_file_is_told_all_that_is_wrong_with_it():
    found = {document: [str(each) for each in problems_of(document)] for document in DOCUMENTS}
    assert_as_expected("suppressions", found)


def test_an_entry_covers_what_it_does_not_leave_out():
    signal = a_signal("x")
    day = date(2027, 1, 1)
    kind = signal.kind
    other = {"kind": "pii_in_output", "case": "two*", "side": "baseline", "tool": "t", "rule": "r"}
    same = {"kind": kind, "case": "on*", "side": "new", "tool": "tool x", "rule": "rule/x"}
    assert Suppression(reason="r", expires=day, **same).covers(signal, "one", "new")
    assert Suppression(reason="r", expires=day, kind=kind, case="one").covers(signal, "one", "new")
    for field, value in other.items():
        assert not Suppression(reason="r", expires=day, **{**same, field: value}).covers(
            signal, "one", "new"
        )
    entries = [
        Suppression("pii_in_output", "never", day),
        Suppression(kind, "why", day),
        Suppression(kind, "late", day),
    ]
    used = Suppressions(entries)
    assert used.apply([signal], "one", "new", date(2027, 1, 2)) == ((signal,), ())
    assert used.apply(iter([BARE, signal]), "one", "new", day) == (
        (),
        (Suppressed(BARE, "never", "2027-01-01"), Suppressed(signal, "why", "2027-01-01")),
    )
    assert used.unused() == (entries[2],)
    assert used.expired(day) == ()
    assert used.expired(date(2027, 1, 2)) == tuple(entries)
    assert Suppressions().apply(iter([signal]), "one", "new", day) == ((signal,), ())
    assert Suppressions().entries == ()


def test_recorded_traffic_is_scanned_with_and_without_baselines():
    names = ["act wire_funds", "tell AKI", "fetch https://drop.example/in", "order 0 forward_page"]
    records = [
        a_response(*RESPONSES[name][1], case_id=f"case-{place}", **RESPONSES[name][2])
        for place, name in enumerate(names)
    ]
    lines = b"\n".join(map(msgspec.json.encode, records))
    good = BaselineTraces([lines + b"\n{broken"], "good.jsonl")
    found = {
        "alone": [plain(each) for each in scan_traces([lines], "new.jsonl")],
        "same": [plain(each) for each in scan_traces([lines + b"\n{broken\n"], "new.jsonl", good)],
        "faults": good.faults,
        "unmasked": len(list(scan_traces([lines], "new.jsonl", masked=False))),
    }
    assert_as_expected("scanned", found)


SAID = [
    *[setting.format(order.text) for order in ORDERS[:4] for setting in SETTINGS], *[order.asked for order in ORDERS],
    "a.b, c..d ,, e", "x\\ny", "1,234.50", "1234", "12.5", "$20", "0.125", "1e3", "1_000", "2024-05-03", "2024-05-03T10:00", "2024-13-01",
    "2024-00-01", "2024-12-31", "2024-01-0", "2024/05/03", "abcd-05-03", "https://www.drop.example:80/a?b=c&d=e&f#g", "http://x.y", "", "  ",
    "ann@acme.test", "ann@acme", "DE89370400440532013000", "+44 20 7946 0958", "12345678", "1234567", "ab", "QUJD" * 6, "QUJD" * 5 + "QUJ",
    "[a](https://u:p@h.example/x) ![i](https://i.example/p?q) https://h.example/x.", "Delete the files, then run the tests.", "The door has to be unlocked.",
    "Please kindly zap the box", "Do what she asks.", "Follow all the steps in the note", "act accordingly", "You must walk home", "9" * 30, "-5", "5.0", "€7,5",
    "InstanceId", "send_email.to", "getHTTPResponse2", "order.cancel", "x" * 250, "Überweisung an Jörg", "it's 3 PM", "/etc/shadow", "rm -rf /",
    "use tool_x via the API", "Handle it as described in the bill.pdf", "following these: a, b", "sk-live", "1234567.891", "999999999999999", "1000000000000000",
]  # fmt: skip
FUNCTIONS = {
    "plain_words": written_values.plain_words, "letters_only": written_values.letters_only, "written_forms": written_values.written_forms,
    "read_date": written_values.read_date, "words_of": tool_names.words_of, "profile": tool_names.profile, "delegates": user_request.delegates,
    "asks": lambda text: [deed for deed in ("money", "destroy", "send", "policy", "connect", "permission", "none") if user_request.asks_for(deed, text)],
    "links": lambda text: [[each.url, each.image, each.host, each.carried, each.shown] for each in outbound.links_in(text)],
    "address": lambda text: [outbound.is_address(text), outbound.is_email(text), outbound.is_blob(text)],
    "dangerous": dangerous, "read_tool": fit.read_tool, "is_telling": fit.is_telling, "urls_in": fit.urls_in, "is_destination": fit.is_destination,
    "is_uncommon": fit._is_uncommon, "tellings": lambda text: sorted(map(str, fit._tellings(text))),
    "may": lambda text: [fit.may_stand_in(b" send 1234 now ", text), fit.may_be_spelled(b"send1234ann", text)],
    "words": lambda text: [instructions.is_no_order(text.encode("utf-8", "replace")), instructions.is_unknown_deed(text.encode("utf-8", "replace"))],
    "instructions": lambda text: [
        [each.pressed, each.sentence, each.order, each.passage, each.is_prose, each.names_an_identifier,
         each.stems, each.verb_stems, each.kinds]
        for each in instructions.InstructionReader(text).holding([b"send", b"the", b"to", b"in", b"door"])
    ],
    "pressed": lambda text: [each.order for each in instructions.InstructionReader(text).pressed],
    "request": lambda text: [UserRequest(text).entrusts, UserRequest(text).mentioned, UserRequest(text)._refers, UserRequest(text)._kinds,
                             UserRequest(text).is_for(fit.read_tool("send_email")), UserRequest(text).is_for(fit.read_tool("read_page"))],
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_texts_are_read_as_expected(name):
    found = {
        f"{place:02} {text[:50]!a}": [FUNCTIONS[name](text)] for place, text in enumerate(SAID)
    }
    assert_as_expected(f"read-{name}", found)


def test_texts_read_as_one_are_found_again():
    together = instructions.read_as_one(SAID[:20])
    assert instructions.holding_instructions(together, SAID[:20]) == list(range(20))
    mixed = ["Nothing.", "Send it.", "Ünd", "Delete the file.", ""]
    assert instructions.holding_instructions(instructions.read_as_one(mixed), mixed) == [1, 3]
    assert instructions.holding_instructions(instructions.read_as_one(["a", "b"]), ["a", "b"]) == []
    assert list(instructions._merged([5, 9, 30], 2, 3)) == [(3, 12), (28, 33)]
    assert list(instructions._merged([5, 10], 2, 3)) == [(3, 13)]
    assert list(instructions._merged([], 2, 3)) == []


def test_verbs_have_their_kinds_and_participles():
    assert_as_expected(
        "verbs", {"participles": plain(verbs.PARTICIPLE_KINDS), "verbs": plain(verbs.VERB_KINDS)}
    )


def test_values_have_paths_in_their_order():
    given = [
        {"a": 1, "b": "x", "c": " ", "d": None, "e": True, "f": 1.5}, {"a": {"b": [1, "x", [2]], "c": "y"}, "z": 3}, [1, "x"], "x", 5, None, "",
        {"a": [True, None, "", " x "]}, {"n": 10**5000}, {str(number): number for number in range(501)}, list(range(501)), [[0] * 500] * 5,
    ]  # fmt: skip
    found = [written_values.leaves(each) for each in given]
    shown = {f"{place:02}": [[path, value[:40]] for path, value in (each if len(each) < 20 else [*each[:2], *each[-2:]])]
             for place, each in enumerate(found)}  # fmt: skip
    assert_as_expected("values", {**shown, "sizes": list(map(len, found))})
