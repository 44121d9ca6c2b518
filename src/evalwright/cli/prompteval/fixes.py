"""`--fix`: the safe fixes of the linter, written to the files."""

import codecs
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from evalwright.cli.output import say, write_file
from evalwright.prompts.fixing import fix_prompt
from evalwright.prompts.lint import Selection
from evalwright.prompts.sources import Source


def fix_files(sources: Sequence[Source], selection: Selection, *, quiet: bool) -> set[str]:
    """Rewrite the Markdown prompts that have something to fix; gives their paths.

    A `.prompt.yml` is left alone: what looks like a slip there may be the point of a test case.
    """
    changed = set()
    for source in sources:
        if source.prompt is None or source.file is None or source.type != "markdown":
            continue
        text = fix_prompt(source.prompt, selection)
        if text != source.prompt.text and _write(source.file, source, text):
            changed.add(source.path)
            if not quiet:
                say(f"fixed: {source.path}")
    return changed


def _write(file: Path, source: Source, text: str) -> bool:
    before = file.read_bytes()
    if hashlib.sha256(before).hexdigest() != source.content_sha256:
        say(f"not fixed, for it has just changed: {source.path}")
        return False
    if not os.access(file, os.W_OK) or not file.stat().st_mode & 0o222:
        say(f"not fixed, for it may not be written to: {source.path}")
        return False
    mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
    write_file(file, [mark, text.encode()])
    return True
