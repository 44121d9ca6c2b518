"""How much of a configuration counts: all of the user's own, of a found one what is trusted.

A file that merely lies in the working folder or above it may come from anybody. What it says of
models, prices, tiers, judges, the database and the host can spend money, or send keys and data
elsewhere, so it counts only in a folder that the user trusts. Trust is for a folder and for where
its file sends keys and data: when that changes, the folder has to be trusted again.
"""

import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import Text, phrase
from evalwright.models.config import Config, read_config

_COUNTED = ("models", "prices", "tiers", "host")  # only where it is trusted


class TrustedFolder(msgspec.Struct, frozen=True):
    """A folder whose configuration counts, as long as its file says the same of keys and data."""

    folder: str
    fingerprint: str


def combined_config(own: Iterable[Path], found: Iterable[Path]) -> Config:
    """The user's own file, with the nearest of the found ones on top as far as that counts."""
    notices: list[Text] = []
    config = next(_readable(own, notices), Config())
    nearest = next(_readable(found, notices), None)
    if nearest is not None:
        # Two files as one: of each table, the entries of the upper one count.
        above = _trusted_part(nearest, notices)
        config = Config(
            models={**config.models, **above.models},
            prices={**config.prices, **above.prices},
            secrets=tuple(dict.fromkeys((*config.secrets, *above.secrets))),
            source=above.source,
            tiers={**config.tiers, **above.tiers},
            host={**config.host, **above.host},
            run=above.run.on_top_of(config.run),
            limits=above.limits if above.limits.scoring_s else config.limits,
        )
    return msgspec.structs.replace(config, notices=tuple(notices))


def _readable(paths: Iterable[Path], notices: list[Text]) -> Iterator[Config]:
    for path in paths:
        problem = suspicion(path)
        if problem is None:
            yield read_config(path)
        else:
            said = "{path}: not read, because {problem}; to use it, name it with {@config}"
            notices.append(phrase(said, path=path, problem=problem))


def suspicion(path: Path) -> str | None:
    """Why a file that nobody named is not read."""
    if any(status.st_uid not in {os.geteuid(), 0} for status in (path.lstat(), path.stat())):
        return "it belongs to another user"
    if path.stat().st_mode & stat.S_IWOTH:
        return "every user may write to it"
    return None


def _trusted_part(config: Config, notices: list[Text]) -> Config:
    """All of a found file where its folder is trusted, else only what takes nothing anywhere."""
    ignored = [f"[{name}]" for name in _COUNTED if getattr(config, name)] + config.run.sends
    folder = Path(config.source).parent.resolve()
    trusted = TrustedFolders().get(folder)
    if not ignored or (trusted is not None and trusted.fingerprint == fingerprint(config)):
        return config
    reason = "its folder is not trusted"
    if trusted is not None:
        reason = "it has changed where keys and data go since its folder was trusted"
    notices.append(
        phrase(
            "{file}: {ignored} ignored, because {reason}; look at the file, then "
            "run `evalwright trust {folder}`, or name it with {@config}",
            file=config.source,
            ignored=", ".join(ignored),
            reason=reason,
            folder=folder,
        )
    )
    harmless = config.run.without(config.run.sends)
    return Config(secrets=config.secrets, source=config.source, run=harmless, limits=config.limits)


def fingerprint(config: Config) -> str:
    """Of where a file sends keys and data: providers, models of tiers, judges, all of the host."""
    places = {
        name: (settings.kind, settings.base_url, settings.key_env)
        for name, settings in config.models.items()
    }
    asked = {number: tier.models for number, tier in config.tiers.items() if tier.models}
    run = [[getattr(config.run, name)] for name in config.run.sends]
    said = msgspec.json.encode([places, asked, config.host, *run], order="sorted")
    return hashlib.sha256(said).hexdigest()


class TrustedFolders:
    """The folders that the user trusts: a file for each, in the user's data folder."""

    def __init__(self, place: Path | None = None) -> None:
        if place is None:
            from platformdirs import user_data_path

            place = user_data_path("evalwright", appauthor=False) / "trusted"
        self.place = place

    def get(self, folder: Path) -> TrustedFolder | None:
        found = self._read(self._file(folder))
        return found if found is not None and found.folder == os.fspath(folder) else None

    def all(self) -> list[TrustedFolder]:
        files = self.place.glob("*.json") if self.place.is_dir() else ()
        found = (self._read(file) for file in files)
        return sorted((each for each in found if each is not None), key=lambda each: each.folder)

    def add(self, trusted: TrustedFolder) -> None:
        file = self._file(Path(trusted.folder))
        beside = file.with_name(f".{secrets.token_hex(8)}")
        try:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as written:
                written.write(msgspec.json.encode(trusted))
            beside.replace(file)
        except OSError as error:
            raise BadInput(f"{self.place}: cannot be written: {error.strerror}") from None
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)

    def remove(self, folder: Path) -> bool:
        try:
            self._file(folder).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise BadInput(f"{self.place}: cannot be written: {error.strerror}") from None
        return True

    def _file(self, folder: Path) -> Path:
        return self.place / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()}.json"

    def _read(self, file: Path) -> TrustedFolder | None:
        """What a file says; one that somebody else could have written says nothing."""
        if not self.place.is_absolute():  # without a home: this would be in the working folder
            return None
        try:
            status = file.stat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
            return msgspec.json.decode(file.read_bytes(), type=TrustedFolder)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
