"""The vault: secrets are of no use without the host's key, and keys that are none are refused."""

import os
from pathlib import Path

import pytest

from evalwright.contracts.errors import BadInput, StoreError
from evalwright.host.access.vault import VARIABLE, Vault, WrongKey

PURPOSE = "webhook acme/wh_1"


def test_a_secret_is_opened_for_its_purpose_by_who_has_the_key(tmp_path):
    vault = Vault(tmp_path / "key")
    sealed = vault.seal(b"secret", PURPOSE)
    assert sealed != vault.seal(b"secret", PURPOSE)
    assert Vault(tmp_path / "key").open(sealed, PURPOSE) == b"secret"
    with pytest.raises(WrongKey, match="other is missing"):
        Vault(tmp_path / "other").open(sealed, PURPOSE)
    Vault(tmp_path / "other").seal(b"secret", PURPOSE)
    for other, purpose in ((vault, "webhook acme/wh_2"), (Vault(tmp_path / "other"), PURPOSE)):
        with pytest.raises(WrongKey, match="put the other key back"):
            other.open(sealed, purpose)


@pytest.mark.parametrize("damage", ["", "v1", "v1:x", "v2:{}", "v1:12345678:!", "{}x", "{}===="])
def test_what_was_not_sealed_here_is_not_opened(tmp_path, damage):
    vault = Vault(tmp_path / "key")
    sealed = vault.seal(b"secret", PURPOSE)
    with pytest.raises(WrongKey):
        vault.open(damage.replace("{}", sealed), PURPOSE)


def test_a_key_in_the_environment_needs_no_file(tmp_path):
    environment = {VARIABLE: "0123456789abcdef" * 4}
    vault = Vault.for_database(str(tmp_path / "host.db"), environment)
    vault.check()
    sealed = vault.seal(b"secret", PURPOSE)
    later = Vault.for_database(str(tmp_path / "host.db"), environment)
    assert later.open(sealed, PURPOSE) == b"secret"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "00", "x" * 64, "00" * 33])
def test_a_file_that_holds_no_key_is_refused(tmp_path, text):
    file = tmp_path / "key"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(BadInput, match="not a key of 64 hex digits"):
        Vault(file).check()


def test_bytes_that_are_no_text_are_no_key_either(tmp_path):
    file = tmp_path / "key"
    file.write_bytes(b"\xff" * 64)
    file.chmod(0o600)
    with pytest.raises(BadInput, match="not a key of 64 hex digits"):
        Vault(file).check()


def test_a_key_that_others_may_read_is_refused(tmp_path):
    file = tmp_path / "key"
    file.write_text("00" * 32)
    file.chmod(0o640)
    with pytest.raises(BadInput, match="chmod 600"):
        Vault(file).check()


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "not a file"),
        (lambda file: file.symlink_to("missing"), "No such file"),
        (lambda file: file.symlink_to(file.name), "symbolic links"),
    ],
    ids=["folder", "pipe", "dangling link", "endless link"],
)
def test_what_is_in_the_place_of_the_key_is_refused_at_once(tmp_path, put, reason):
    put(tmp_path / "key")
    with pytest.raises(BadInput, match=f"key: the key .*{reason}"):
        Vault(tmp_path / "key").check()


def test_a_key_that_cannot_be_written_names_the_variable(tmp_path):
    vault = Vault(tmp_path / "missing" / "key")
    vault.check()
    with pytest.raises(StoreError, match=f"set {VARIABLE} instead"):
        vault.seal(b"secret", PURPOSE)


def test_the_key_of_a_database_server_is_in_a_private_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    one, other = (Vault.for_database(f"postgresql://{host}/db") for host in "ab")
    one.check()
    assert not (tmp_path / "data").exists()  # only a secret needs a key
    sealed = one.seal(b"secret", PURPOSE)
    (file,) = (tmp_path / "data" / "evalwright").iterdir()
    assert str(file) == one.place != other.place
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert Vault.for_database("postgresql://a/db").open(sealed, PURPOSE) == b"secret"
