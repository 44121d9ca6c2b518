"""The vault: seals secrets that the host must be able to read again, such as those of webhooks.

The key is in no database: it comes from the environment, or from a file beside the database that
only its owner may read. A copy of the database alone reveals no secret.
"""

import base64
import binascii
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from evalwright.contracts.errors import BadInput, StoreError

VARIABLE = "EVALWRIGHT_SECRET_KEY"
SHORTEST_KEY = 32  # characters of the variable

_NONCE_BYTES = 12
_VERSION = "v1"


class WrongKey(BadInput):
    """A secret was sealed with a key that is not here."""


class Vault:
    """Seals and opens secrets; the key is made or read when it is first needed."""

    def __init__(
        self, key_file: Path, given: str | None = None, *, makes_folder: bool = False
    ) -> None:
        self._file = key_file
        self._makes_folder = makes_folder
        self._given = given
        self._key: bytes | None = None
        self._making = threading.Lock()

    @classmethod
    def for_database(cls, place: str, environment: Mapping[str, str] | None = None) -> "Vault":
        """The vault of the database at a place; a key in the environment comes first.

        The key of a database server is in the user's data folder: hosts on several machines need
        the same one in their environment.
        """
        if "://" in place:
            from platformdirs import user_data_path

            name = hashlib.sha256(place.encode()).hexdigest()[:16]
            folder = user_data_path("evalwright", appauthor=False)
            given = (environment or {}).get(VARIABLE)
            return cls(folder / f"postgresql-{name}-key", given, makes_folder=True)
        real = Path(os.path.realpath(place))
        return cls(real.with_name(f"{real.name}-key"), (environment or {}).get(VARIABLE))

    def check(self) -> None:
        if self._has_key():
            self._loaded()

    def seal(self, secret: bytes, purpose: str) -> str:
        """A secret as text that says nothing, to be opened for the same purpose only."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key, nonce = self._loaded(), secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, secret, purpose.encode())
        return f"{_VERSION}:{_fingerprint(key)}:{base64.b64encode(sealed).decode()}"

    def open(self, sealed: str, purpose: str) -> bytes:
        """The secret; raises `WrongKey`."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        version, _, rest = sealed.partition(":")
        fingerprint, _, text = rest.partition(":")
        if not self._has_key():  # a new one would be in the way of the right one
            raise WrongKey(f"sealed with the key {fingerprint}, and {self.place} is missing")
        key = self._loaded()
        try:
            content = base64.b64decode(text, validate=True)
            if version != _VERSION or fingerprint != _fingerprint(key):
                raise InvalidTag
            nonce, hidden = content[:_NONCE_BYTES], content[_NONCE_BYTES:]
            return AESGCM(key).decrypt(nonce, hidden, purpose.encode())
        except (InvalidTag, ValueError, binascii.Error):
            raise WrongKey(
                f"sealed with the key {fingerprint}, and the key in {self.place} is "
                f"{_fingerprint(key)}; put the other key back"
            ) from None

    @property
    def place(self) -> str:
        """Where the key is, for messages."""
        return VARIABLE if self._given is not None else str(self._file)

    def _has_key(self) -> bool:
        is_known = self._key is not None or self._given is not None
        return is_known or os.path.lexists(self._file)

    def _loaded(self) -> bytes:
        with self._making:
            if self._key is None and self._given is not None:
                if len(self._given) < SHORTEST_KEY:
                    raise BadInput(
                        f"{VARIABLE}: must have at least {SHORTEST_KEY} characters; make one with "
                        "`openssl rand -hex 32`, or unset it to use a key file beside the database"
                    )
                self._key = hashlib.sha256(self._given.encode()).digest()
            elif self._key is None:
                self._key = self._from_file()
            return self._key

    def _from_file(self) -> bytes:
        if not os.path.lexists(self._file):
            try:
                self._make()
            except OSError as error:
                message = f"{self._file}: the key cannot be written: {error.strerror}"
                raise StoreError(f"{message}; set {VARIABLE} instead") from error
        try:
            # Whoever opens a pipe to read would wait for somebody who writes to it.
            descriptor = os.open(self._file, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
                mode = os.fstat(descriptor).st_mode
                if not stat.S_ISREG(mode):
                    raise BadInput(f"{self._file}: the key is not a file; remove what is there")
                if stat.S_IMODE(mode) & 0o077:
                    raise BadInput(f"{self._file}: others may read this key; run chmod 600 on it")
                text = file.read(256).strip()
        except OSError as error:
            message = f"{self._file}: the key cannot be read: {error.strerror}"
            raise BadInput(f"{message}; put the key there, with mode 600") from None
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if len(key) != 32:
            raise BadInput(f"{self._file}: not a key of 64 hex digits; restore it from a copy")
        return key

    def _make(self) -> None:
        """Write a new key; another process that does the same at this moment comes first or last.

        The file appears with its content, so that nobody reads half a key.
        """
        if self._makes_folder:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self._file.with_name(f"{self._file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{secrets.token_hex(32)}\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(new, self._file)
        finally:
            new.unlink()


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(b"evalwright key\0" + key).hexdigest()[:8]
