"""A command and its terminal: results to stdout, everything else to stderr, files written whole or
not, and Ctrl-C: the first stops a run in good order, the second at once.
"""

import contextlib
import errno
import io
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from evalwright.contracts.amounts import in_minutes
from evalwright.contracts.documents import HANDED_OVER
from evalwright.contracts.errors import BadInput, CannotEvaluate, Interrupted
from evalwright.contracts.messages import Edge, Text, as_option, told
from evalwright.reports.formats.console import (
    PLAIN_ERRORS,
    Style,
    draws,
    encoded,
    folded,
    printable,
)

T = TypeVar("T")

Emit = Callable[[bytes], None]

STDOUT = Path("/dev/stdout")
MEANINGS = {  # of exit codes, where a command does not say more
    0: "may ship",
    1: "may not ship",
    2: "bad usage or input",
    3: "could not be evaluated",
    130: "interrupted",
}
_STOPS = (signal.SIGINT, signal.SIGTERM)
_STDOUT_NAMES = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
READER_SECONDS = 1.0  # within which somebody must read a named pipe that is written to
RENEWED_AFTER, TOLD_AFTER = 0.5, 10.0  # seconds, on a terminal and elsewhere
_pipes: dict[Path, int] = {}  # checked and open: to close one would end the reading


class Streams:
    """stdout and stderr as they were at the start: an agent may close or replace Python's."""

    out: TextIO = sys.stdout
    err: TextIO = sys.stderr


class _StreamPlace(io.RawIOBase):
    """Where a stream leads to, by a descriptor of our own; once that is closed, by the first one.

    A descriptor that leads elsewhere by now was closed and given to another file.
    """

    def __init__(self, descriptor: int) -> None:
        self._place = os.fstat(descriptor)
        self._descriptors = os.dup(descriptor), descriptor

    def fileno(self) -> int:
        """The descriptor that still leads there; raises `OSError` if there is none."""
        for each in self._descriptors:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(each), self._place):
                    return each
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptors[0])

    def writable(self) -> bool:
        """It is only written to."""
        return True

    def write(self, data: Any) -> int | None:
        """Write what the place takes at once."""
        try:
            return os.write(self.fileno(), data)
        except BlockingIOError:
            return None

    def lead_to(self, descriptor: int) -> None:
        """Write elsewhere from here on."""
        os.dup2(descriptor, self.fileno())
        self._place = os.fstat(descriptor)


def prepare_streams() -> None:
    """Make stdout and stderr exist and take any text, whatever the shell made of them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN_ERRORS)
            with contextlib.suppress(OSError, ValueError):
                place = io.BufferedWriter(_StreamPlace(stream.fileno()))
                stream = io.TextIOWrapper(place, stream.encoding, PLAIN_ERRORS)
        setattr(Streams, name[3:], stream)


def reserve_stdout() -> Emit:
    """Keep stdout for the result alone; give back the one way to write to it.

    What agents, their threads, their children and their exit handlers print goes to stderr from
    here on, to the end of the process.
    """
    _flush(sys.stdout, Streams.out)
    try:
        kept = io.BufferedWriter(_StreamPlace(1))
    except OSError:  # there is no stdout
        return write_stdout
    os.dup2(2, 1)
    _lead(Streams.out, 2)
    return lambda data: _write_result(kept, data)


def is_stdout(path: Path) -> bool:
    """Whether a place to write to is standard output, by one of its names."""
    return str(path) in _STDOUT_NAMES


def write_stdout(data: bytes) -> None:
    """Write bytes to stdout as they are."""
    _flush(sys.stdout, Streams.out)
    _write_result(Streams.out.buffer, data)


def _as_option(field: str, value: str) -> str:
    """A field as `evalwright run` calls it; what only other commands have is called like itself."""
    from evalwright.cli.run import command

    called = {parameter.name: parameter.opts[0] for parameter in command.params}
    name = called.get(field) or called.get(f"{field}s") or field.replace("_", "-")
    return as_option(name.removeprefix("--"), value)


COMMAND_LINE = Edge(_as_option)


def in_words(text: object) -> str:
    """A message, an error or a text, with options as the command line calls them."""
    return told(text, COMMAND_LINE)


def echo(text: str, *, styled: bool = False) -> None:
    """Print a result for people on stdout; only styled text may steer the terminal."""
    if not styled:
        text = _fitted(text, Streams.out)
    line = (text if styled else printable(text)) + "\n"
    _flush(sys.stdout, Streams.out)
    _write_result(Streams.out.buffer, encoded(line, Streams.out.encoding))


def _fitted(text: str, stream: TextIO) -> str:
    """A text in lines that fit a terminal; elsewhere, programs look for words in a line."""
    return "\n".join(folded(text, Style.of(stream).width)) if stream.isatty() else text


def room() -> int:
    """The columns for a line of data: those of a terminal, elsewhere as many as it takes."""
    return Style.of(Streams.out).width if Streams.out.isatty() else sys.maxsize


def say(remark: Text, *, styled: bool = False) -> None:
    """Print a remark on stderr; if nobody can read it, nothing is lost."""
    text = in_words(remark)
    if not styled:
        text = _fitted(text, Streams.err)
    with contextlib.suppress(OSError):
        # A line of progress may stand there.
        end = "\x1b[K\n" if draws(Streams.err) else "\n"
        line = (text if styled else printable(text)) + end
        Streams.err.write(
            encoded(line, Streams.err.encoding or "utf-8").decode(Streams.err.encoding or "utf-8")
        )
        Streams.err.flush()


def print_exit(code: int, meaning: str = "", *, aside: bool = False) -> int:
    """Say on the last line with which code the command ends, and what that means; gives the code.

    It is said on stderr where stdout is for something else, and for an error.
    """
    line = f"exit {code}: {meaning or MEANINGS[code]}"
    stream = Streams.err if aside else Streams.out
    (say if aside else echo)(Style.of(stream).dim(line), styled=True)
    return code


def print_json(value: Any) -> None:
    """Write a value to stdout as JSON for people and programs."""
    import msgspec

    write_stdout(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def stop_in_good_order() -> None:
    """Let SIGTERM stop the command as Ctrl-C does; a second signal does not disturb cleaning up."""
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt("what was not finished is not kept; run the command again")


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or raise `Interrupted` on SIGINT and SIGTERM."""
    import asyncio

    from evalwright.engine.workers import run_until_signalled

    try:
        return run_until_signalled(work, _STOPS, _say_stopping)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise Interrupted("interrupted") from None


def _say_stopping() -> None:
    with contextlib.suppress(RuntimeError):  # the signal came while stderr was being written to
        say("stopping; Ctrl-C again stops at once")


class WorkProgress:
    """How far a long work is: a line that is renewed on a terminal, else one now and then."""

    def __init__(self, noun: str, *, is_shown: bool = True) -> None:
        self._noun = noun
        self._began = time.monotonic()
        self._is_drawn = False
        first = RENEWED_AFTER if draws(Streams.err) else TOLD_AFTER
        self._next = self._began + first if is_shown else math.inf

    def __call__(self, done: int, total: int = 0) -> None:
        """Say that so many are done, unless that was said a moment ago."""
        now, is_live = time.monotonic(), draws(Streams.err)
        if now < self._next:
            return
        self._next = now + (RENEWED_AFTER if is_live else TOLD_AFTER)
        line = f"{done:,} of {total:,} {self._noun}" if total else f"{done:,} {self._noun}"
        if 0 < done < total:
            left = (now - self._began) / done * (total - done)
            line += f"  {in_minutes(left)} left"
        if not is_live:
            say(line)
            return
        self._is_drawn = True
        with contextlib.suppress(OSError):
            Streams.err.write(f"\r{line}\x1b[K")
            Streams.err.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._is_drawn:
            with contextlib.suppress(OSError):
                Streams.err.write("\r\x1b[K")
                Streams.err.flush()


def warn(text: Text) -> None:
    """Say, also where only errors are wanted, what a user must know to be safe."""
    say(f"warning: {in_words(text)}")


def without_secrets(text: str) -> str:
    """A text from elsewhere as it may be printed: logs of a build are read by many."""
    from evalwright.signals.masking import mask_text

    return mask_text(text, personal=False)


def let_go_of_streams() -> None:
    """Write what is left; where nobody reads it, Python must not exit with a code of its own."""
    _flush(sys.stdout, sys.stderr, Streams.out, Streams.err)


def _flush(*streams: BinaryIO | TextIO) -> None:
    """Write what streams hold, in the order of whoever wrote it; an agent may have closed some."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                _discard(stream)
        except (ValueError, AttributeError):  # it is closed, or not a stream at all
            continue


def _discard(stream: BinaryIO | TextIO) -> None:
    _lead(stream, os.open(os.devnull, os.O_WRONLY))


def _lead(stream: BinaryIO | TextIO, descriptor: int) -> None:
    place = getattr(getattr(stream, "buffer", stream), "raw", None)
    if isinstance(place, _StreamPlace):
        place.lead_to(descriptor)
    elif descriptor != stream.fileno():
        os.dup2(descriptor, stream.fileno())


def _write_result(stream: BinaryIO, data: bytes) -> None:
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:  # the reader has seen enough; the exit code still tells the outcome
        _discard(stream)
    except OSError as error:
        _discard(stream)
        message = f"the result cannot be written to stdout: {error.strerror}"
        raise CannotEvaluate(message) from None


def check_place(path: Path) -> None:
    """Refuse, before the work begins, a file that cannot be written when it is done."""
    try:
        folder = path.resolve().parent
        path.exists()  # a name that is too long is found out here
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{path}: cannot be written: {reason}") from None
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        reason = "it is a directory" if path.is_dir() else f"{path.parent} is not a writable folder"
        raise BadInput(f"{path}: cannot be written: {reason}")
    if _is_named_pipe(path):
        try:
            _pipes[path.resolve()] = _opened_pipe(path)
        except OSError as error:
            raise BadInput(
                f"{path}: cannot be written: {error.strerror}; write to a file"
            ) from None


def _is_named_pipe(path: Path) -> bool:
    return path.is_fifo() and not HANDED_OVER.fullmatch(str(path))


def _opened_pipe(path: Path) -> int:
    """A descriptor of a pipe that somebody reads: to wait for a reader could take for ever."""
    deadline = time.monotonic() + READER_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                message = "it is a named pipe, and nobody reads it"
                raise OSError(errno.ENXIO, message, str(path)) from None
            time.sleep(0.02)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def make_folder(path: Path) -> None:
    """Make a folder for results, with its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{path}: the folder cannot be made: {error.strerror}") from None


@contextlib.contextmanager
def folder_for_results(path: Path) -> Iterator[None]:
    """Make a folder for what the work will give; what was made and is empty then goes again."""
    made = [each for each in (path, *path.parents) if not each.exists()]
    make_folder(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for each in made:
                each.rmdir()


def write_file(path: Path, chunks: Iterable[bytes], *, is_private: bool = False) -> None:
    """Write a file whole: beside its place first, then moved there; a device is written to.

    Only its owner can read a new file that is private: one that holds what an agent said as it was
    recorded. Reports, in which secrets are masked, are for whoever the umask lets in.
    """
    try:
        place = path.resolve()
        if _is_named_pipe(path):
            descriptor = _pipes.pop(place, None)
            with os.fdopen(_opened_pipe(path) if descriptor is None else descriptor, "wb") as pipe:
                pipe.writelines(chunks)
        elif path.exists() and not path.is_file():  # a pipe's real path does not exist
            with path.open("wb") as device:
                device.writelines(chunks)
        else:
            from evalwright.contracts.documents import write_whole

            write_whole(place, chunks, 0o600 if is_private else 0o666)
    except OSError as error:
        raise CannotEvaluate(f"{path}: cannot be written: {error.strerror}") from None
