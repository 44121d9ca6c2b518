"""Keys: who holds one is let in, everybody else gets the same 401."""

import hashlib
import re
import string
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalwright.contracts.errors import BadInput
from evalwright.host.access.keys import (
    DEFAULT_SCOPES,
    TEST_PREFIX,
    authenticate,
    create_key,
    list_keys,
    revoke_key,
)
from evalwright.host.http.errors import ApiError
from evalwright.store.records import RecordChange, Records
from evalwright.store.sqlite.log import SqliteLog

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

one_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    log = SqliteLog(tmp_path / "log.db")
    yield log.records
    log.close()


def refusal(records: Records, header: str | None, now: datetime = NOW) -> ApiError:
    with pytest.raises(ApiError) as caught:
        authenticate(records, header, now)
    return caught.value


def bearer(text: str) -> str:
    return f"Bearer {text}"


def with_another_secret(text: str) -> str:
    return text[:-1] + ("a" if text[-1] != "a" else "b")


def test_the_holder_of_a_key_is_who_the_key_was_made_for(records: Records) -> None:
    text, key = create_key(records, NOW, "acme", workspace="shop", scopes=["runs:read"])
    holder = authenticate(records, bearer(text), NOW)
    assert (holder.key_id, holder.tenant, holder.workspace) == (key.key_id, "acme", "shop")
    assert holder.scopes == {"runs:read"}
    assert holder.principal == f"key:{key.key_id}"
    assert not holder.is_test


def test_a_scope_implies_no_other(records: Records) -> None:
    text, _ = create_key(records, NOW, "acme", scopes=["runs:cancel"])
    holder = authenticate(records, bearer(text), NOW)
    assert holder.may("runs:cancel")
    assert not holder.may("runs:read")


def test_a_key_for_which_no_scope_is_named_has_the_default_ones(records: Records) -> None:
    text, _ = create_key(records, NOW, "acme")
    assert authenticate(records, bearer(text), NOW).scopes == DEFAULT_SCOPES


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
def test_the_scheme_is_read_as_http_has_it(records: Records, scheme: str) -> None:
    text, key = create_key(records, NOW, "acme")
    assert authenticate(records, scheme + text, NOW).key_id == key.key_id


def test_a_key_is_text_that_can_be_sent_and_pasted_as_it_is(records: Records) -> None:
    text, key = create_key(records, NOW, "acme")
    prefix, key_id, secret = text.split("_")
    assert (prefix, key_id) == ("ew", key.key_id)
    assert re.fullmatch(r"[a-z2-7]{16}", key_id)  # other lengths would lock out keys of today
    assert set(secret) <= set(string.ascii_letters + string.digits)
    assert len(secret) == 43
    assert 62 ** len(secret) >= 2**256


def test_a_test_key_says_so_in_its_text_and_to_the_host(records: Records) -> None:
    text, _ = create_key(records, NOW, "acme", is_test=True)
    assert text.startswith(TEST_PREFIX)
    assert authenticate(records, bearer(text), NOW).is_test


def test_the_prefix_of_a_key_cannot_be_exchanged(records: Records) -> None:
    live, _ = create_key(records, NOW, "acme")
    test, _ = create_key(records, NOW, "acme", is_test=True)
    for text in (live.replace("ew_", TEST_PREFIX, 1), test.replace(TEST_PREFIX, "ew_", 1)):
        assert refusal(records, bearer(text)).code == "unauthenticated"


def test_no_two_keys_are_the_same(records: Records) -> None:
    texts = {create_key(records, NOW, "acme")[0] for _ in range(20)}
    assert len({text.split("_")[1] for text in texts}) == 20
    assert len({text.split("_")[2] for text in texts}) == 20


def test_the_store_holds_a_hash_and_never_the_secret(records: Records, tmp_path: Path) -> None:
    text, key = create_key(records, NOW, "acme")
    secret = text.rpartition("_")[2]
    body = records.get("key", "", key.key_id)
    assert body is not None
    assert hashlib.sha256(secret.encode()).hexdigest().encode() in body
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert key.key_id.encode() in stored
    assert secret.encode() not in stored


def test_what_may_be_told_of_a_key_has_neither_secret_nor_hash(records: Records) -> None:
    text, key = create_key(records, NOW, "acme")
    secret = text.rpartition("_")[2]
    told = repr([key, *list_keys(records), revoke_key(records, key.key_id, NOW)])
    assert key.key_id in told
    assert secret not in told
    assert hashlib.sha256(secret.encode()).hexdigest() not in told


# Refusals.


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer ew_",
        "Bearer nope",
        "ew_a_b",
        "Bearer ß",
    ],
)
def test_a_request_without_a_key_is_not_authenticated(records: Records, header: str | None) -> None:
    error = refusal(records, header)
    assert (error.status, error.code) == (401, "unauthenticated")
    is_token_bad = header is not None
    challenge = 'Bearer realm="evalwright"' + ', error="invalid_token"' * is_token_bad
    assert error.headers == {"WWW-Authenticate": challenge}
    assert "Authorization: Bearer <key>" in error.message


def test_a_wrong_secret_and_an_unknown_key_get_the_same_answer(records: Records) -> None:
    text, key = create_key(records, NOW, "acme")
    wrong = refusal(records, bearer(with_another_secret(text)))
    unknown = refusal(records, bearer(text.replace(key.key_id, "a" * len(key.key_id))))
    assert (wrong.status, wrong.code) == (401, "unauthenticated")
    assert vars(wrong) == vars(unknown)
    assert wrong.headers == {"WWW-Authenticate": 'Bearer realm="evalwright", error="invalid_token"'}


def test_a_secret_is_compared_in_constant_time_even_where_there_is_no_key(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []
    monkeypatch.setattr("hmac.compare_digest", lambda *pair: compared.append(pair) or False)
    text, key = create_key(records, NOW, "acme")
    refusal(records, bearer(text))
    refusal(records, bearer(text.replace(key.key_id, "a" * len(key.key_id))))
    assert [[len(side) for side in pair] for pair in compared] == [[64, 64], [64, 64]]


def test_no_refusal_repeats_what_was_sent(records: Records) -> None:
    text, key = create_key(records, NOW, "acme")
    revoke_key(records, key.key_id, NOW)
    for sent in (text, with_another_secret(text), text + "x"):
        error = refusal(records, bearer(sent))
        assert sent.rpartition("_")[2] not in repr(vars(error))


@given(junk=st.text(max_size=80))
@one_store
def test_whatever_is_sent_instead_of_a_key_is_a_401(records: Records, junk: str) -> None:
    for header in (junk, f"Bearer {junk}", f"Bearer ew_{junk}", f"Bearer ew_{'a' * 16}_{junk}"):
        assert refusal(records, header).status == 401


@given(place=st.integers(min_value=0), letter=st.sampled_from(string.ascii_letters + string.digits))
@one_store
def test_a_key_with_one_letter_changed_opens_nothing(
    records: Records, place: int, letter: str
) -> None:
    text, _ = create_key(records, NOW, "acme")
    place %= len(text)
    changed = text[:place] + letter + text[place + 1 :]
    if changed != text:
        assert refusal(records, bearer(changed)).code == "unauthenticated"


# The end of a key.


@given(before=st.integers(1, 10**9), after=st.integers(0, 10**9))
@one_store
def test_a_key_opens_until_it_expires_and_not_from_then_on(
    records: Records, before: int, after: int
) -> None:
    end = NOW + timedelta(days=20_000)
    text, _ = create_key(records, NOW, "acme", expires_at=end)
    authenticate(records, bearer(text), end - timedelta(seconds=before))
    error = refusal(records, bearer(text), end + timedelta(seconds=after))
    assert (error.status, error.code) == (401, "key_expired")


def test_a_revoked_key_opens_nothing(records: Records) -> None:
    text, key = create_key(records, NOW, "acme")
    revoke_key(records, key.key_id, NOW)
    error = refusal(records, bearer(text))
    assert (error.status, error.code) == (401, "key_revoked")
    assert key.key_id in error.message
    assert error.headers == {"WWW-Authenticate": 'Bearer realm="evalwright", error="invalid_token"'}


def test_revoking_one_key_leaves_the_others(records: Records) -> None:
    _, lost = create_key(records, NOW, "acme")
    text, kept = create_key(records, NOW, "acme")
    revoke_key(records, lost.key_id, NOW)
    assert authenticate(records, bearer(text), NOW).key_id == kept.key_id


def test_the_end_of_a_key_is_told_only_to_who_knows_its_secret(records: Records) -> None:
    expired, _ = create_key(records, NOW, "acme", expires_at=NOW + HOUR)
    revoked, key = create_key(records, NOW, "acme")
    revoke_key(records, key.key_id, NOW)
    for text in (expired, revoked):
        guess = bearer(with_another_secret(text))
        assert refusal(records, guess, NOW + 2 * HOUR).code == "unauthenticated"


def test_a_key_that_is_revoked_again_keeps_the_time_of_the_first(records: Records) -> None:
    _, key = create_key(records, NOW, "acme")
    revoke_key(records, key.key_id, NOW)
    assert revoke_key(records, key.key_id, NOW + HOUR).revoked_at == NOW


class Overtaken:
    """Documents that somebody else changes right after they were read for the first time."""

    def __init__(self, records: Records, change: Callable[[], object]) -> None:
        self._change: Callable[[], object] | None = change
        self._records = records
        self.write = records.write

    def get(self, kind: str, tenant: str, key: str) -> bytes | None:
        body = self._records.get(kind, tenant, key)
        change, self._change = self._change, None
        if change is not None:
            change()
        return body


def test_of_two_who_revoke_a_key_at_once_the_first_counts(records: Records) -> None:
    _, key = create_key(records, NOW, "acme")
    overtaken = Overtaken(records, lambda: revoke_key(records, key.key_id, NOW))
    assert revoke_key(overtaken, key.key_id, NOW + HOUR).revoked_at == NOW
    assert [kept.revoked_at for kept in list_keys(records)] == [NOW]


def test_a_key_that_would_be_over_at_once_is_not_made(records: Records) -> None:
    with pytest.raises(BadInput, match="in the past"):
        create_key(records, NOW, "acme", expires_at=NOW)
    assert list_keys(records) == []


# Lists and names.


def test_keys_are_listed_oldest_first_for_all_tenants_or_for_one(records: Records) -> None:
    made = [
        create_key(records, NOW + number * HOUR, tenant)[1].key_id
        for number, tenant in enumerate(["acme", "globex", "acme"])
    ]
    assert [key.key_id for key in list_keys(records)] == made
    assert [key.key_id for key in list_keys(records, "acme")] == [made[0], made[2]]
    assert list_keys(records, "nobody") == []


def test_keys_are_listed_however_many_there_are(records: Records) -> None:
    _, key = create_key(records, NOW, "acme")
    body = records.get("key", "", key.key_id)
    records.write([RecordChange("key", "", f"copy-{n:04}", body) for n in range(2_500)]).result()
    assert len(list_keys(records)) == 2_501


def test_a_key_has_a_state(records: Records) -> None:
    _, key = create_key(records, NOW, "acme", expires_at=NOW + HOUR)
    assert key.state(NOW) == "active"
    assert key.state(NOW + HOUR) == "expired"
    assert revoke_key(records, key.key_id, NOW).state(NOW + HOUR) == "revoked"


@pytest.mark.parametrize("name", ["", "Acme", "a b", "a/b", "é", "x" * 65, "a\n", "a%"])
def test_a_name_of_other_letters_is_refused(records: Records, name: str) -> None:
    with pytest.raises(BadInput, match=r"tenant .* 1 to 64 of the characters a-z"):
        create_key(records, NOW, name)
    with pytest.raises(BadInput, match=r"workspace .* 1 to 64 of the characters a-z"):
        create_key(records, NOW, "acme", workspace=name)


def test_a_long_name_is_repeated_in_part_only(records: Records) -> None:
    with pytest.raises(BadInput) as caught:
        create_key(records, NOW, "X" * 1000)
    assert "X" * 80 in str(caught.value)
    assert "X" * 81 not in str(caught.value)


@given(name=st.text(string.ascii_lowercase + string.digits + "._-", min_size=1, max_size=64))
@one_store
def test_a_name_of_the_right_letters_is_taken_as_it_is(records: Records, name: str) -> None:
    text, _ = create_key(records, NOW, name, workspace=name)
    holder = authenticate(records, bearer(text), NOW)
    assert (holder.tenant, holder.workspace) == (name, name)


def test_revoking_a_key_that_is_not_there_is_an_error(records: Records) -> None:
    with pytest.raises(BadInput, match="no such key: aaaaaaaaaaaaaaaa"):
        revoke_key(records, "aaaaaaaaaaaaaaaa", NOW)


def test_a_key_that_is_given_in_place_of_its_id_is_not_repeated(records: Records) -> None:
    text, _ = create_key(records, NOW, "acme")
    with pytest.raises(BadInput, match="not a key id") as caught:
        revoke_key(records, text, NOW)
    assert text not in str(caught.value)
