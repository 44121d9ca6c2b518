"""`evalwright trust`: let the configuration in a folder count."""

from collections.abc import Iterator
from pathlib import Path

import click

from evalwright.cli.output import echo
from evalwright.contracts.errors import BadInput
from evalwright.models.config import FILE_NAME, PROJECT_FILE, Config, find_config, read_config
from evalwright.models.trust import TrustedFolder, TrustedFolders, fingerprint, suspicion

EXAMPLES = """\b
Examples:
  evalwright trust
  evalwright trust ../shop
  evalwright trust --list
  evalwright trust --remove ../shop
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List the trusted folders and exit.")
@click.option("--remove", is_flag=True, help="Trust the folder no more.")
def command(*, folder: Path | None, listing: bool, remove: bool) -> int:
    """Let the evalwright.toml in FOLDER count, by default the nearest one here or above.

    A file that is merely found cannot say where keys and data go, or what to spend, until you
    trust its folder. If it is changed to send them elsewhere, it has to be trusted again. A file
    that is named with --config always counts.
    """
    if folder is not None and folder.name in (FILE_NAME, PROJECT_FILE) and not folder.is_dir():
        folder = folder.parent  # as warnings name the file
    trusted = TrustedFolders()
    if listing:
        for each in trusted.all():
            echo(each.folder)
        return 0
    if remove:
        place = _real(folder) if folder is not None else _file(None).parent.resolve()
        if not trusted.remove(place):
            raise BadInput(f"{place}: is not trusted; see `evalwright trust --list`")
        echo(f"no longer trusted: {place}")
        return 0
    path = _file(folder)
    problem = suspicion(path)
    if problem is not None:
        raise BadInput(f"{path}: cannot be trusted, because {problem}; name it with --config")
    config = read_config(path)
    place = path.parent.resolve()
    trusted.add(TrustedFolder(str(place), fingerprint(config)))
    echo("\n".join([f"trusted: {place / path.name}", *_granted(config)]))
    return 0


def _real(folder: Path) -> Path:
    try:
        return folder.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{folder}: cannot be read: {error}") from None


def _file(folder: Path | None) -> Path:
    """The file in a folder, else the one that a command would find here."""
    path = find_config(folder or Path())
    if path is None or (folder is not None and path.parent != folder.absolute()):
        where = "here or above" if folder is None else f"in {folder}"
        raise BadInput(f"there is no {FILE_NAME} {where}; name the folder that holds one")
    return path


def _granted(config: Config) -> Iterator[str]:
    for name, settings in config.models.items():
        address = f" calls go to {settings.base_url}" if settings.base_url else ""
        key = f" with the key in {settings.key_env}" if settings.key_env else ""
        if address or key:
            yield f"  [models.{name}]{address}{key}"
    for number, tier in config.tiers.items():
        if tier.models:
            yield f"  [tiers.{number}] asks {', '.join(tier.models)}"
    if config.prices:
        yield f"  [prices] of {', '.join(config.prices)}"
    if config.host:
        yield f"  [host] {', '.join(config.host)}"
    for name in config.run.sends:
        value = getattr(config.run, name)
        yield f"  {name}: {value if isinstance(value, str) else ', '.join(value)}"
