"""The PostgreSQL that other tests use."""

import signal

import pytest

from postgres_server import PostgresServer, execute, refuse_or_skip


def test_every_test_gets_a_database_of_its_own(postgres: PostgresServer, postgres_address: str):
    other = postgres.new_database()
    execute(postgres_address, "CREATE TABLE things (id int)", "INSERT INTO things VALUES (1)")

    with pytest.raises(Exception, match="does not exist"):
        execute(other, "SELECT * FROM things")
    assert len(execute(postgres_address, "SELECT * FROM things")) == 1
    postgres.drop_database(other)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_server_of_its_own_keeps_what_is_committed_when_it_is_restarted(
    how: signal.Signals, own_postgres: PostgresServer
):
    own_postgres.execute("CREATE TABLE things (id int)", "INSERT INTO things VALUES (1)")

    own_postgres.restart(how)

    assert len(own_postgres.execute("SELECT * FROM things")) == 1


def test_without_postgresql_a_test_is_skipped_but_fails_in_ci(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="PostgreSQL is missing: no initdb"):
        refuse_or_skip("no initdb")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="PostgreSQL is missing: no initdb"):
        refuse_or_skip("no initdb")
