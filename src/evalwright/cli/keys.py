"""`evalwright keys`: create, list and revoke the keys of the host."""

from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from evalwright.cli.output import echo, print_json, say
from evalwright.cli.parameters import db_option, json_option, parse_duration
from evalwright.contracts.errors import BadInput
from evalwright.host.access.keys import DEFAULT_SCOPES, Key, create_key, list_keys, revoke_key
from evalwright.store.location import log_exists, opened_log, shown_place


@click.group(
    epilog="""\b
Examples:
  evalwright keys create --tenant acme --expires 30d
  evalwright keys list"""
)
def command() -> None:
    """Create, list and revoke the API keys of the host.

    A key belongs to one tenant and has no access to any other.
    """


@command.command(epilog="Example: evalwright keys create --tenant acme --scope runs:read")
@click.option("--tenant", required=True, metavar="T", help="The tenant that the key belongs to.")
@click.option(
    "--workspace",
    metavar="W",
    help="Restrict the key to a workspace of the tenant, with its own runs.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="S",
    help="A scope such as runs:read or deploy:*; repeat it for more. By default everything with"
    " runs, suites, agents and annotations.",
)
@click.option(
    "--expires",
    "expires_at",
    callback=lambda _ctx, _param, text: _ending(text),
    metavar="D",
    help="When it expires: 12h, 30d, 2030-12-31, 2030-12-31T18:00:00Z. By default never.",
)
@click.option(
    "--test", "is_test", is_flag=True, help="Create a test key, which has its own prefix."
)
@json_option
@db_option
def create(*, as_json: bool, db: str | None, scopes: tuple[str, ...], **asked: Any) -> None:
    """Create a key and print it once; only a hash of it is stored."""
    with opened_log(db) as log:
        text, key = create_key(log.records, _now(), scopes=scopes or DEFAULT_SCOPES, **asked)
    if as_json:
        print_json({"key": text, "keyId": key.key_id})
        return
    echo(text)
    ends = f"expires {_minute(key.expires_at)} UTC" if key.expires_at else "never expires"
    say(f"key {key.key_id} of tenant {key.tenant}, {ends}; scopes: {' '.join(key.scopes)}")
    say("Save it now: it is not shown again and cannot be recovered.")


@command.command("list", epilog="Example: evalwright keys list --tenant acme")
@click.option("--tenant", metavar="T", help="Only the keys of this tenant.")
@json_option
@db_option
def list_command(*, tenant: str | None, as_json: bool, db: str | None) -> None:
    """List keys, oldest first.

    Their secrets are not shown, because they are not stored.
    """
    keys, now = _keys(db, tenant), _now()
    if as_json:
        print_json([{**msgspec.to_builtins(key), "state": key.state(now)} for key in keys])
    elif keys:
        echo("\n\n".join(_lines(key, now) for key in keys))
    else:
        say(_no_key(db, f" of tenant {tenant}" if tenant is not None else ""))


@command.command(epilog="Example: evalwright keys revoke p4xqk2vha3ztc7me")
@click.argument("key_id", metavar="KEYID")
@db_option
def revoke(*, key_id: str, db: str | None) -> None:
    """Revoke the key with this id, from now on.

    Doing it again changes nothing.
    """
    if not log_exists(db):
        raise BadInput(_no_key(db))
    with opened_log(db) as log:
        key = revoke_key(log.records, key_id, _now())
    echo(f"key {key.key_id} of tenant {key.tenant} was revoked at {_minute(key.revoked_at)} UTC")


def _ending(text: str | None) -> datetime | None:
    """The time given as a duration from now, or as a date or time, by default in UTC."""
    if text is None:
        return None
    try:
        duration = parse_duration(text)
        if duration is not None:
            return _now() + duration
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        forms = "12h, 30d, 2030-12-31 or 2030-12-31T18:00:00Z"
        raise click.BadParameter(f"{text!r} is not an expiry; write {forms}.") from None


def _keys(db: str | None, tenant: str | None) -> list[Key]:
    if not log_exists(db):
        return []
    with opened_log(db) as log:
        return list_keys(log.records, tenant)


def _no_key(db: str | None, whose: str = "") -> str:
    return f"{shown_place(db)}: no keys{whose}; create one with `evalwright keys create`"


def _lines(key: Key, now: datetime) -> str:
    kind = "test key" if key.is_test else "key"
    workspace = f", workspace {key.workspace}" if key.workspace else ""
    ends = f", expires {_minute(key.expires_at)} UTC" if key.expires_at else ""
    return (
        f"{key.key_id}  {kind.ljust(8)}  {key.state(now)}\n"
        f"  tenant {key.tenant}{workspace}\n"
        f"  created {_minute(key.created_at)} UTC{ends}\n"
        f"  scopes: {' '.join(key.scopes)}"
    )


def _minute(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""


def _now() -> datetime:
    return datetime.now(UTC)
