"""`evalwright pack`: build, verify and install packs of agents and suites."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from evalwright.cli.output import check_place, echo, in_words, print_exit, write_file, write_stdout
from evalwright.cli.parameters import db_option, json_option
from evalwright.contracts.documents import parse_json, read_input
from evalwright.contracts.errors import BadInput
from evalwright.contracts.pack import is_integrity
from evalwright.store.location import opened_log

if TYPE_CHECKING:
    from evalwright.agents.packs.pack import Pack
    from evalwright.agents.packs.verify import Verification
    from evalwright.store.records import Records

EXAMPLES = """\b
Examples:
  evalwright pack build shop --key private.pem --out shop.tgz
  evalwright pack verify shop.tgz --key public.pem --integrity sha256-…
  evalwright pack install shop.tgz --tenant acme --key public.pem --integrity sha256-…
"""
_FILE = click.Path(path_type=Path)

_key = click.option("--key", type=_FILE, help="The public key to trust: Ed25519, a PEM file.")
_integrity = click.option(
    "--integrity",
    metavar="HASH|FILE",
    help="The archive's digest, from its registry: sha256-…, or a JSON file with `integrity`.",
)
_allow_unsigned = click.option(
    "--allow-unsigned",
    is_flag=True,
    help="Accept a pack although the key or the integrity is not known.",
)


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Build, verify and install packs: agents with their prompts, schemas and suites."""


@command.command(epilog="Example: evalwright pack build shop --key private.pem")
@click.argument("folder", type=_FILE, metavar="DIR")
@click.option("--out", type=_FILE, help="The file to write.  [default: NAME-VERSION.tgz]")
@click.option("--key", type=_FILE, help="The private key to sign with: Ed25519, a PEM file.")
@json_option
def build(*, folder: Path, out: Path | None, key: Path | None, as_json: bool) -> None:
    """Pack what is in DIR.

    That is pack.json, prompts, schemas, evals, README and LICENSE. The same files give the same
    bytes, on any machine. A key is made by
    `openssl genpkey -algorithm ed25519 -out private.pem`.
    """
    from evalwright.agents.packs.build import build_pack

    pack = build_pack(folder, key)
    place = out or Path(f"{pack.name}-{pack.version}.tgz")
    check_place(place)
    write_file(place, [pack.archive])
    size = len(pack.archive)
    if as_json:
        facts = {"pack": pack.ref, "file": str(place), "integrity": pack.integrity, "size": size}
        _print_json({**facts, "signed": key is not None})
        return
    signed = "signed" if key else "not signed"
    echo(f"{pack.ref} in {place}, {size} bytes, {signed}\n{pack.integrity}")


@command.command(epilog="Example: evalwright pack verify shop.tgz --key public.pem")
@click.argument("file", type=_FILE)
@_key
@_integrity
@_allow_unsigned
@json_option
def verify(
    *, file: Path, key: Path | None, integrity: str | None, allow_unsigned: bool, as_json: bool
) -> int:
    """Say whether FILE is a sound pack, and who signed it.

    Also whether it is the expected archive. The signature covers pack.json, the integrity every
    byte: a pack is verified when both hold.
    Exit code 1 when a check fails, or could not be made and --allow-unsigned is not given.
    """
    verification = _verification(file, key, integrity)
    passes = verification.passes(allow_unsigned=allow_unsigned)
    if as_json:
        _print_json(_as_document(verification))
    else:
        echo(_as_text(verification))
    return 0 if passes else print_exit(1, "not verified", aside=as_json)


@command.command(
    epilog="Example: evalwright pack install shop.tgz --tenant acme --key public.pem"
    " --integrity sha256-…"
)
@click.argument("file", type=_FILE)
@click.option("--tenant", required=True, metavar="T", help="The tenant that gets the pack.")
@_key
@_integrity
@_allow_unsigned
@db_option
def install(
    *,
    file: Path,
    tenant: str,
    key: Path | None,
    integrity: str | None,
    allow_unsigned: bool,
    db: str | None,
) -> None:
    """Verify FILE, then give a tenant its agents and suites.

    A pack is refused unless it can be checked with a key and an integrity. A version that is
    installed does not change: the same archive again is fine, another one is not.
    """
    from evalwright.agents.packs.verify import require_peers
    from evalwright.host.access.keys import check_name

    check_name("tenant", tenant)
    verification = _verification(file, key, integrity)
    pack = verification.require(allow_unsigned=allow_unsigned)
    require_peers(pack)
    with opened_log(db) as log:
        is_new = _install(log.records, tenant, pack)
    trusted = "verified" if verification.is_verified else "NOT verified"
    done = "installed" if is_new else "was installed already"
    echo(f"{pack.ref} {done} for tenant {tenant}, {trusted}")
    for agent_id in pack.manifests:
        suite = pack.suite_of(agent_id)
        echo(f"  {agent_id}" + (f", evaluated by {suite.ref}" if suite else ""))


def _install(records: "Records", tenant: str, pack: "Pack") -> bool:
    """Write what is not there yet; tell whether there was anything to write."""
    from evalwright.contracts.pack import PACK_KIND
    from evalwright.host.library.catalogue import pack_changes
    from evalwright.store.records import RecordConflict

    if records.get(PACK_KIND, tenant, pack.ref) == pack.archive:
        return False
    changes = pack_changes(tenant, pack)
    known = {change: records.get(change.kind, tenant, change.key) for change in changes}
    new = [change for change in changes if known[change] != change.body]
    try:
        records.write(new).result()
    except RecordConflict:
        taken = next((change for change in new if known[change] is not None), new[0])
        raise BadInput(
            f"{pack.ref}: tenant {tenant} has the {taken.kind} {taken.key} already, and it is "
            "another one (what has changed needs a new version)"
        ) from None
    return True


def _verification(file: Path, key: Path | None, integrity: str | None) -> "Verification":
    from evalwright.agents.packs.pack import read_pack_archive
    from evalwright.agents.packs.signature import load_public_key
    from evalwright.agents.packs.verify import Trust, verify_pack

    trusted = load_public_key(read_input(key), str(key)) if key else None
    trust = Trust(trusted, _integrity_text(integrity) if integrity is not None else None)
    return verify_pack(read_pack_archive(file), trust, str(file))


def _integrity_text(given: str) -> str:
    """An integrity as it is written, or as a file tells it."""
    found: Any = given
    if not given.startswith("sha256-"):
        document = parse_json(read_input(Path(given)), given)
        found = document.get("integrity") if isinstance(document, dict) else None
    if not isinstance(found, str) or not is_integrity(found):
        raise BadInput(
            f"--integrity {given}: not an integrity value "
            "(write sha256- and the SHA-256 of the archive in base64, or name a JSON file with it)"
        )
    return found


def _as_document(verification: "Verification") -> dict[str, Any]:
    return {
        "file": verification.name,
        "pack": verification.pack.ref if verification.pack else None,
        "integrity": verification.integrity,
        "verified": verification.is_verified,
        "checks": [
            msgspec.structs.replace(each, message=in_words(each.message))
            for each in verification.checks
        ],
    }


def _as_text(verification: "Verification") -> str:
    lines = [f"{verification.name}: {verification.integrity}"]
    for check in verification.checks:
        first, *rest = in_words(check.message).splitlines()
        lines.append(f"  {check.status:11}  {check.check:9}  {first}")
        lines += [" " * 26 + line for line in rest]
    return "\n".join([*lines, "VERIFIED" if verification.is_verified else "NOT VERIFIED"])


def _print_json(value: Any) -> None:
    write_stdout(msgspec.json.encode(value) + b"\n")
