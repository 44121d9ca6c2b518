"""What is masked shows its kind and nothing of itself, and stays the same kind of document."""

import base64
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from invented_secrets import PERSONAL, TOKENS, TOLD, a_private_key, checked, some

from evalwright.signals.masking import mask_bytes, mask_capture, mask_text, mask_value
from evalwright.signals.sensitive import scan, scan_bytes

TOKEN = TOKENS["github-token"]
SECRETS = [*TOKENS.values(), *(secret for _, secret in TOLD.values())]
LONG_SECRETS = [secret for secret in TOKENS.values() if len(secret) > 12]
WORDS = st.one_of(
    st.sampled_from([*SECRETS, *(value for _, value in PERSONAL.values())]),
    st.sampled_from(
        ["password", "token", "secret", "=", ": ", '"', "'", " ", "\n", "\\n", "\\", "é", "is "]
    ),
    st.text(max_size=6),
)
TEXTS = st.lists(WORDS, max_size=10).map("".join)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)


@pytest.mark.parametrize("rule", sorted(TOKENS))
def test_nothing_of_a_secret_is_left_but_its_kind(rule):
    token = TOKENS[rule]
    masked = mask_text(f"here: {token} there")
    assert masked.startswith(f"here: [masked:{rule}")
    assert masked.endswith("] there")
    assert token[4:10] not in masked


def test_equal_secrets_show_as_equal_and_others_as_others():
    other = checked("gh" + "p_")
    masked = mask_text(f"{TOKEN} {TOKEN} {other}").split()
    assert masked[0] == masked[1] != masked[2]


def test_an_escaped_secret_has_the_same_mask_as_a_plain_one():
    escaped = f"\\u{ord(TOKEN[0]):04x}{TOKEN[1:]}"
    assert mask_text(escaped) == mask_text(TOKEN)


@pytest.mark.parametrize("rule", sorted(PERSONAL))
def test_personal_data_has_no_fingerprint_since_all_values_can_be_tried(rule):
    context, value = PERSONAL[rule]
    assert mask_text(context.format(value)) == context.format(f"[masked:{rule}]")


def test_a_password_or_a_code_has_no_fingerprint_either():
    assert mask_text("password=Tr0ub4dor&3") == "password=[masked:password]"
    assert mask_text("Your login code: 482913") == "Your login code: [masked:one-time-code]"


def test_a_doubtful_secret_is_masked_all_the_same():
    wrong = TOKEN[:-1] + ("a" if TOKEN[-1] != "a" else "b")
    assert wrong not in mask_text(wrong)


def test_nothing_sensitive_gives_back_the_very_same_object():
    text, data, value = "plain words", b'{"a": [1, "b"]}', {"a": [1, "b"]}
    assert mask_text(text) is text
    assert mask_bytes(data) is data
    assert mask_value(value) is value


def test_keys_nested_values_and_json_in_strings_are_masked():
    inner = json.dumps({"headers": {"Authorization": f"Bearer {TOKEN}"}})
    value = {TOKEN: 1, "list": [{"deep": TOKEN}], "body": inner, "twice": json.dumps(inner)}
    masked = mask_value(value)
    assert TOKEN not in json.dumps(masked)
    assert json.loads(masked["body"])["headers"].keys() == {"Authorization"}
    assert json.loads(json.loads(masked["twice"]))["headers"].keys() == {"Authorization"}


def test_the_name_of_a_field_tells_that_its_value_is_secret():
    assert mask_value({"password": "Hunter2!"}) == {"password": "[masked:password]"}
    assert mask_value({"nickname": "Hunter2!"}) == {"nickname": "Hunter2!"}


def test_a_card_number_that_is_a_json_number_becomes_a_string():
    data = b'{"card": 4111111111111111, "n": 4111111111111112}'
    assert json.loads(mask_bytes(data)) == {"card": "[masked:credit-card]", "n": 4111111111111112}


def test_two_keys_with_the_same_mask_stay_two_keys():
    value = {"ann@acme.test": 1, "bob@acme.test": 2, "at": "cy@acme.test"}
    masked = mask_value(value)
    assert list(masked.values()) == [1, 2, "[masked:email]"]
    assert list(masked)[:2] == ["[masked:email]", "[masked:email] (2)"]


def test_a_private_key_with_escaped_line_ends_is_masked_whole():
    key = a_private_key()
    masked = mask_bytes(json.dumps({"key": key, "after": "x"}).encode())
    parsed = json.loads(masked)
    assert parsed["after"] == "x"
    assert parsed["key"].startswith("[masked:private-key#")
    assert parsed["key"].endswith("]")


def test_layout_and_everything_else_of_a_document_stay():
    data = b'{\n  "a" : "x %s y",\n  "b": 1.50\n}\n'
    assert mask_bytes(data % TOKEN.encode()) == data % mask_text(TOKEN).encode()


def test_bytes_that_are_no_text_are_masked_too():
    data = b"\xff\xfe\x00<h1>" + TOKEN.encode() + b"\x80\x00"
    masked = mask_bytes(data)
    assert masked == b"\xff\xfe\x00<h1>" + mask_text(TOKEN).encode() + b"\x80\x00"


def test_a_mask_that_somebody_wrote_hides_nothing():
    assert TOKEN not in mask_text(f"[masked:{TOKEN}]")
    assert TOKEN not in mask_text(f"[masked:email]{TOKEN}[masked:email]")


def test_values_too_deep_to_look_into_are_not_shown():
    value: list[object] = [TOKEN]
    for _ in range(100_000):
        value = [value]
    assert TOKEN not in str(mask_value(value))


def test_escaped_slashes_do_not_hide_a_password():
    data = b'{"dsn": "postgres:\\/\\/app:' + b"s3cr3tPw" + b'@db\\/shop"}'
    assert json.loads(mask_bytes(data))["dsn"] == "postgres://app:[masked:url-password]@db/shop"


@given(TEXTS)
@example("password" + TOKENS["telegram-token"] * 3 + "\x80")
@example("\x80" + TOKEN + "\u20ac")
def test_a_masked_text_holds_no_finding_and_is_not_masked_again(text):
    masked = mask_text(text)
    assert scan(masked) == []
    assert mask_text(masked) is masked


@given(st.one_of(TEXTS.map(lambda text: text.encode("utf-8", "replace")), st.binary()))
def test_any_bytes_are_masked_once_and_for_all(data):
    masked = mask_bytes(data)
    assert scan_bytes(masked) == []
    assert mask_bytes(masked) is masked


@given(VALUES)
def test_json_stays_json_of_the_same_shape(value):
    data = json.dumps(value).encode()
    masked = mask_bytes(data)
    assert _shape(json.loads(masked)) == _shape(json.loads(data))
    assert scan_bytes(masked) == []


def _shape(value):
    if isinstance(value, dict):
        return [_shape(each) for each in value.values()]
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return None


@given(st.sampled_from(LONG_SECRETS), TEXTS, TEXTS)
def test_no_secret_survives_between_other_text(secret, before, after):
    assert secret not in mask_text(f"{before} {secret} {after}")


@given(st.binary(max_size=40))
def test_base64_of_anything_raises_nothing(data):
    mask_value({"blob": base64.b64encode(data).decode(), "basic": f"Basic {some(12)}"})


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_captured_body_of_wide_characters_is_masked_too(encoding):
    body = f"login with {TOKEN} please".encode(encoding)
    masked = mask_capture(body)
    assert TOKEN not in masked.decode(encoding)
    assert mask_capture(masked) == masked


def test_a_captured_body_without_secrets_is_left_as_it_is():
    for body in (b"", b"\xff\xfe\x00", bytes(range(256)), "grün".encode("utf-16")):
        assert mask_capture(body) is body


def test_a_wrong_mark_of_the_byte_order_hides_no_secret():
    body = b"\xff\xfemail jane.roe@acme-mail.org now."
    assert len(body) % 2 == 0
    assert b"jane.roe@acme-mail.org" not in mask_capture(body)
