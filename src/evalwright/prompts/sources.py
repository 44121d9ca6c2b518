"""Which files are prompts, by the rules of the specification, and what is in them."""

import errno
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import BadInput
from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.file_kinds import OTHER_FORMATS
from evalwright.prompts.parse import MAX_BYTES, STDIN, input_type, parse_prompt, unsupported
from evalwright.prompts.results import Failure
from evalwright.signals.patterns import when_used

UNKNOWN_TYPE = "unknown"
_ARCHIVES = frozenset({"archive", "_archive"})
_INSTALLED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox"})
_NEVER_PROMPTS = frozenset(
    {"requirements.txt", "constraints.txt", "robots.txt", "cmakelists.txt", "top_level.txt"}
)
_TEMPLATES = "templates"
_SCAFFOLD = when_used(r"(?:^|[\W_])(?:template|scaffold)s?(?:$|[\W_])", re.IGNORECASE)
_SAYS_WHAT_IT_IS = ("title", "name", "type", "kind", "category", "tags", "layout")
_LEFT_OUT = (".agent.md", ".instructions.md")  # unless all kinds are asked for
_PROMPT_SUFFIXES = (".md", ".prompt.yml", ".prompt.yaml")
_NAMED = 5  # of what was passed over
_LONGEST_NAME = 200
_WORD = when_used(r"\w")
_USUAL_BYTES = 64 * 1024


class DiscoveredFile(msgspec.Struct, frozen=True):
    """A file to evaluate, or a path that cannot be: then `error` says why."""

    path: Path
    shown: str  # relative to the working directory with forward slashes, else as given
    note: str | None = None  # why a file that was named would otherwise be left out
    error: UnfitPrompt | None = None
    is_special: bool = False  # a pipe, a device, a link without end
    named: bool = False  # rather than found in a folder


class Source(msgspec.Struct, frozen=True):
    """One file: the prompt in it, or why there is none."""

    path: str
    type: str
    prompt: Prompt | None = None
    failure: Failure | None = None
    content_sha256: str | None = None
    file: Path | None = None  # None: standard input
    named: bool = False  # rather than found in a folder


class PromptSearch(msgspec.Struct):
    """What a search through folders takes for prompts, and what it passed over, as it is shown."""

    all_kinds: bool = False  # also agents, instructions and the other formats
    passed_over: list[str] = []


def find_files(paths: Sequence[Path], search: PromptSearch | None = None) -> list[DiscoveredFile]:
    """All files with prompts below the paths, in order; raises `BadInput` if there are none."""
    search = PromptSearch() if search is None else search
    found = list(discover(paths, search))
    if not found:
        others = ""
        if search.passed_over:
            others = f"; passed over: {passed_over_in_words(search.passed_over)}"
        raise BadInput(
            f"{', '.join(map(str, paths))}: no prompts found; prompts are *.md and "
            f"*.prompt.yml files, except README, index, agent and instruction files{others}"
        )
    return found


def passed_over_in_words(paths: Sequence[str], most: int = _NAMED) -> str:
    """What was passed over: how many, the names of the first, and what to do about it."""
    shown = ", ".join(paths[:most])
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    count = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    has_others = any(path.lower().endswith((*_LEFT_OUT, *OTHER_FORMATS)) for path in paths)
    remedy = "; --all-kinds takes other formats, agents and instructions too" if has_others else ""
    return f"{count} ({shown}{more}){remedy}"


def read_source(found: DiscoveredFile) -> Source:
    """Read a file; what is wrong with it is part of the result."""
    kind = input_type(found.shown) or UNKNOWN_TYPE
    try:
        data = read_bytes(found)
        digest = hashlib.sha256(data).hexdigest()
    except UnfitPrompt as error:
        failure = Failure(error.code, error.message)
        return Source(found.shown, kind, failure=failure)
    try:
        prompt = parse_prompt(data, found.shown, found.note)
    except UnfitPrompt as error:
        reason = Failure(error.code, error.message)
        return Source(found.shown, kind, failure=reason, content_sha256=digest)
    file = None if found.shown == STDIN else found.path
    return Source(
        found.shown, prompt.type, prompt, content_sha256=digest, file=file, named=found.named
    )


def read_again(source: Source) -> Source:
    """A file that was changed since it was read."""
    assert source.file is not None
    note = next(iter(source.prompt.notes), None) if source.prompt else None
    return read_source(DiscoveredFile(source.file, source.path, note, named=source.named))


def discover(paths: Sequence[Path], search: PromptSearch | None = None) -> Iterator[DiscoveredFile]:
    """The prompts at and below the paths, each once, sorted by path; `-` is standard input."""
    search = PromptSearch() if search is None else search
    found: dict[str, DiscoveredFile] = {}
    folders: dict[str, str] = {}
    # Folders last: a file that is named and also lies in a named folder keeps the note on its name.
    for path in sorted(paths, key=Path.is_dir):
        for each in _at(path, search):
            is_stdin = str(each.path) == STDIN
            found.setdefault(STDIN if is_stdin else _real_path(each.path, folders), each)
    named = {each.shown for each in found.values()}
    search.passed_over[:] = sorted(set(search.passed_over) - named)
    yield from sorted(found.values(), key=lambda each: each.shown)


def _real_path(path: Path, folders: dict[str, str]) -> str:
    """The path without links; that of a folder is found out once, since it costs much."""
    folder, name = os.path.split(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    real = os.path.join(folders[folder], name)  # noqa: PTH118
    return os.path.realpath(real) if name in ("", "..") or os.path.islink(real) else real  # noqa: PTH114


def read_bytes(found: DiscoveredFile) -> bytes:
    """The content of what was found; raises UnfitPrompt, also with the error it was found with."""
    if found.error is not None:
        raise found.error
    if found.shown == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with open_input(found.path) as file:
            # Memory is set aside for as much as is asked for, and most files are small.
            start = file.read(_USUAL_BYTES)
            rest = file.read(MAX_BYTES + 1 - _USUAL_BYTES) if len(start) == _USUAL_BYTES else b""
            return start + rest
    except OSError as error:
        raise _unfit(found.shown, error) from None


def read_prompt(found: DiscoveredFile) -> Prompt:
    """Read and parse what was found; raises UnfitPrompt."""
    return parse_prompt(read_bytes(found), found.shown, found.note)


def _at(path: Path, search: PromptSearch) -> Iterator[DiscoveredFile]:
    if str(path) == STDIN:
        yield DiscoveredFile(path, STDIN, named=True)
        return
    shown = path.as_posix()
    absolute, here = os.path.abspath(path), os.getcwd()  # noqa: PTH100, PTH109 - no link resolved
    if absolute == here:
        shown = "."
    elif absolute.startswith(here.rstrip(os.sep) + os.sep):
        shown = Path(os.path.relpath(absolute, here)).as_posix()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        yield _not_found(path, shown, error)
        return
    if stat.S_ISDIR(mode):
        yield from _walk(path, shown, search)
    elif input_type(shown) is None and stat.S_ISREG(mode):
        yield DiscoveredFile(path, shown, error=UnfitPrompt("invalid_input", unsupported(shown)))
    else:
        reason = _excluded(path, tuple(shown.split("/")))
        note = None if reason is None else f"evaluated because it was named: {reason}"
        yield _regular(path, shown, mode, note, named=True)


def _regular(path: Path, shown: str, mode: int, note: str | None, *, named: bool) -> DiscoveredFile:
    if stat.S_ISREG(mode):
        return DiscoveredFile(path, shown, note, named=named)
    error = UnfitPrompt("invalid_input", f"{shown}: not a regular file")
    return DiscoveredFile(path, shown, error=error, is_special=True)


def _not_found(path: Path, shown: str, error: OSError | ValueError) -> DiscoveredFile:
    is_endless = getattr(error, "errno", None) == errno.ELOOP
    return DiscoveredFile(path, shown, error=_unfit(shown, error), is_special=is_endless)


def _unfit(shown: str, error: OSError | ValueError) -> UnfitPrompt:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return UnfitPrompt("file_not_found", f"{shown}: no such file or folder")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return UnfitPrompt("invalid_input", f"{shown}: cannot be read: {reason}")


def _walk(path: Path, shown: str, search: PromptSearch) -> Iterator[DiscoveredFile]:
    """What is found below a folder; folders that lead back to themselves are entered once."""
    prefix = "" if shown == "." else shown.rstrip("/") + "/"
    # Each folder with its segments below the named one and the folders it lies in.
    left: list[tuple[Path, tuple[str, ...], frozenset[tuple[int, int]]]] = [(path, (), frozenset())]
    while left:
        folder, below, around = left.pop()
        try:
            status = folder.stat()
            identity = (status.st_dev, status.st_ino)
            with os.scandir(folder) as scan:
                entries = list(scan)
            if identity in around:
                raise OSError(errno.ELOOP, "a link to a folder around it")
        except OSError as error:
            yield _not_found(folder, prefix + "/".join(below) or ".", error)
            continue
        for entry in entries:
            name = entry.name.lower()
            inner = (*below, entry.name)
            place = prefix + "/".join(inner)
            try:
                is_folder = entry.is_dir()
            except OSError:  # a link to itself; with the name of a prompt it is reported
                is_folder = False
            if is_folder:
                if name in _ARCHIVES or (search.all_kinds and entry.name in _INSTALLED):
                    search.passed_over.append(place + "/")
                else:
                    left.append((folder / entry.name, inner, around | {identity}))
                continue
            is_other = not name.endswith(_PROMPT_SUFFIXES)
            if is_other and not name.endswith(OTHER_FORMATS):
                continue
            is_left_out = is_other and (not search.all_kinds or name in _NEVER_PROMPTS)
            inside = folder / entry.name
            if is_left_out or _excluded(inside, inner, all_kinds=search.all_kinds) is not None:
                search.passed_over.append(place)
                continue
            try:  # what the folder says of a file is enough, unless it is a link or a special file
                mode = (
                    stat.S_IFREG if entry.is_file(follow_symlinks=False) else inside.stat().st_mode
                )
            except OSError as error:
                yield _not_found(inside, place, error)
                continue
            yield _regular(inside, place, mode, None, named=False)


def _excluded(path: Path, below: tuple[str, ...], *, all_kinds: bool = False) -> str | None:
    """Why discovery leaves a file out, or None; `below` is its path from the named folder on."""
    *folders, name = (part.lower() for part in below)
    if name in {"readme.md", "index.md"}:
        return f"{path.name} is left out of a folder"
    for suffix in () if all_kinds else _LEFT_OUT:
        if name.endswith(suffix):
            return f"*{suffix} is left out of a folder"
    if archive := _ARCHIVES.intersection(folders):
        return f"what lies in {min(archive)}/ is left out of a folder"
    # A folder `templates` that is named itself holds scaffolds as any other does.
    in_templates = _TEMPLATES in folders or (
        not folders and path.absolute().parent.name.lower() == _TEMPLATES
    )
    if in_templates and _is_scaffold(path):
        return "a scaffold in templates/ is left out of a folder"
    return None


def _is_scaffold(path: Path) -> bool:
    """Whether a file in templates/ calls itself a template, or is nothing but placeholders."""
    if _SCAFFOLD.search(path.name):
        return True
    try:
        prompt = read_prompt(DiscoveredFile(path, path.name))
    except UnfitPrompt:  # it is evaluated, and its error shown
        return False
    stated = prompt.frontmatter or {}
    if stated.get("template") is True or stated.get("scaffold") is True:
        return True
    for key in _SAYS_WHAT_IT_IS:
        value = stated.get(key)
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and _SCAFFOLD.search(text) for text in texts):
            return True
    if not prompt.placeholders:
        return False
    rest = "\n".join(block.text for block in prompt.blocks if block.kind != "heading")
    names: dict[str, set[str]] = {}
    for placeholder in prompt.placeholders:
        names.setdefault(placeholder.style, set()).add(placeholder.name)
    for style, known in names.items():
        rest = _without(rest, style, known)
    return not _WORD.search(rest)


def _without(text: str, style: str, names: set[str]) -> str:
    opening, closing = map(re.escape, _BRACKETS[style])
    bracketed = when_used(rf"{opening}([^\n]{{1,{_LONGEST_NAME}}}?){closing}")
    return bracketed.sub(lambda found: "" if found[1].strip() in names else found[0], text)


_BRACKETS = {"{{}}": ("{{", "}}"), "[]": "[]", "${}": ("${", "}"), "<>": "<>", "{}": "{}"}
