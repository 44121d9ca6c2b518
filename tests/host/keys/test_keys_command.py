"""`evalwright keys`: a key is shown once, listed without what opens, and revoked by its id."""

from datetime import UTC, datetime, timedelta

import pytest

from evalwright.host.access.keys import DEFAULT_SCOPES, Principal, authenticate
from evalwright.host.http.errors import ApiError
from evalwright.store.sqlite.log import SqliteLog
from subjects.command import Evalwright, Finished


def keys(evalwright: Evalwright, *arguments: str) -> Finished:
    return evalwright("keys", *arguments, "--db", str(evalwright.db))


def make(evalwright: Evalwright, *arguments: str) -> dict[str, str]:
    made = keys(evalwright, "create", "--tenant", "acme", "--json", *arguments)
    assert (made.code, made.err) == (0, "")
    return made.json()


def listed(evalwright: Evalwright, *arguments: str) -> list[dict[str, object]]:
    return keys(evalwright, "list", "--json", *arguments).json()


def holder(evalwright: Evalwright, text: str) -> Principal:
    log = SqliteLog(evalwright.db)
    try:
        return authenticate(log.records, f"Bearer {text}", datetime.now(UTC))
    finally:
        log.close()


def test_a_key_that_was_made_opens_the_host(evalwright: Evalwright) -> None:
    made = make(evalwright, "--workspace", "shop")
    assert made.keys() == {"key", "keyId"}
    who = holder(evalwright, made["key"])
    assert (who.key_id, who.tenant, who.workspace) == (made["keyId"], "acme", "shop")
    assert who.scopes == DEFAULT_SCOPES


def test_people_get_the_key_alone_on_stdout_and_are_told_that_it_is_shown_once(
    evalwright: Evalwright,
) -> None:
    made = keys(evalwright, "create", "--tenant", "acme")
    assert holder(evalwright, made.out.strip()).tenant == "acme"
    assert "not shown again" in made.err
    assert made.out.strip() not in made.err


def test_scopes_are_written_out_when_the_key_is_made(evalwright: Evalwright) -> None:
    make(evalwright, "--scope", "deploy:*", "--scope", "runs:read")
    [key] = listed(evalwright)
    assert key["scopes"] == ["deploy:pause", "deploy:promote", "deploy:rollback", "runs:read"]


def test_a_test_key_is_marked(evalwright: Evalwright) -> None:
    made = make(evalwright, "--test")
    assert made["key"].startswith("ew_test_")
    assert [key["isTest"] for key in listed(evalwright)] == [True]


@pytest.mark.parametrize(("written", "hours"), [("12h", 12), ("30d", 30 * 24), ("1h", 1)], ids=str)
def test_a_key_can_end_after_a_while(evalwright: Evalwright, written: str, hours: int) -> None:
    earliest = datetime.now(UTC)
    make(evalwright, "--expires", written)
    latest = datetime.now(UTC)
    end = datetime.fromisoformat(str(listed(evalwright)[0]["expiresAt"]))
    assert earliest <= end - timedelta(hours=hours) <= latest


@pytest.mark.parametrize(
    ("written", "end"),
    [
        ("2099-12-31", "2099-12-31T00:00:00Z"),
        ("2099-12-31T18:30:00Z", "2099-12-31T18:30:00Z"),
        ("2099-12-31T18:30:00+02:00", "2099-12-31T16:30:00Z"),
    ],
)
def test_a_key_can_end_at_a_time(evalwright: Evalwright, written: str, end: str) -> None:
    make(evalwright, "--expires", written)
    assert [key["expiresAt"] for key in listed(evalwright)] == [end]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tenant", "Acme"], "a-z"),
        (["--tenant", "acme", "--workspace", "a/b"], "a-z"),
        (["--tenant", "acme", "--scope", "runs:fly"], "runs:create"),
        (["--tenant", "acme", "--expires", "soon"], "30d"),
        (["--tenant", "acme", "--expires", "999999999d"], "30d"),
        (["--tenant", "acme", "--expires", "0d"], "choose a later one"),
        (["--tenant", "acme", "--expires", "2001-01-01"], "choose a later one"),
        ([], "--tenant"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_key_that_cannot_be_is_refused_with_what_can(
    evalwright: Evalwright, arguments: list[str], words: str
) -> None:
    refused = keys(evalwright, "create", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert words in refused.err
    assert listed(evalwright) == []


def test_a_list_never_holds_what_opens(evalwright: Evalwright) -> None:
    secret = make(evalwright)["key"].rpartition("_")[2]
    for shown in (keys(evalwright, "list"), keys(evalwright, "list", "--json")):
        assert "acme" in shown.out
        assert secret not in shown.out + shown.err
        assert "hash" not in shown.out


def test_a_list_can_be_of_one_tenant(evalwright: Evalwright) -> None:
    ours = make(evalwright)["keyId"]
    keys(evalwright, "create", "--tenant", "globex")
    assert len(listed(evalwright)) == 2
    assert [key["keyId"] for key in listed(evalwright, "--tenant", "acme")] == [ours]
    assert "globex" not in keys(evalwright, "list", "--tenant", "acme").out


def test_a_list_of_nothing_says_how_to_begin_and_makes_no_file(evalwright: Evalwright) -> None:
    shown = keys(evalwright, "list")
    assert (shown.code, shown.out) == (0, "")
    assert "evalwright keys create" in shown.err
    assert listed(evalwright) == []
    assert evalwright.db is not None
    assert not evalwright.db.exists()


def test_a_revoked_key_opens_nothing_and_stays_in_the_list(evalwright: Evalwright) -> None:
    made = make(evalwright)
    assert keys(evalwright, "revoke", made["keyId"]).code == 0
    assert [key["state"] for key in listed(evalwright)] == ["revoked"]
    with pytest.raises(ApiError, match="is revoked"):
        holder(evalwright, made["key"])


def test_revoking_again_changes_nothing(evalwright: Evalwright) -> None:
    key_id = make(evalwright)["keyId"]
    first = keys(evalwright, "revoke", key_id)
    after_the_first = listed(evalwright)
    again = keys(evalwright, "revoke", key_id)
    assert (again.code, again.out) == (0, first.out)
    assert listed(evalwright) == after_the_first


@pytest.mark.parametrize("is_empty", [True, False], ids=["no log", "other keys"])
def test_revoking_an_unknown_key_is_bad_input(evalwright: Evalwright, *, is_empty: bool) -> None:
    if not is_empty:
        make(evalwright)
    refused = keys(evalwright, "revoke", "a" * 16)
    assert (refused.code, refused.out) == (2, "")
    assert ("no keys" if is_empty else "no such key") in refused.err
