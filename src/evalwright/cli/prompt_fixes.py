"""`--fix`: the safe fixes of the linter, written to the files."""

from collections.abc import Sequence

from evalwright.cli.output import say, write_file
from evalwright.prompts.fixing import fix_prompt
from evalwright.prompts.lint import Selection
from evalwright.prompts.sources import Source


def fix_files(sources: Sequence[Source], selection: Selection, *, quiet: bool) -> int:
    """Rewrite the files that have something to fix; gives their number."""
    changed = 0
    for source in sources:
        if source.prompt is None or source.file is None:
            continue
        text = fix_prompt(source.prompt, selection)
        if text != source.prompt.text:
            write_file(source.file, [text.encode()])
            changed += 1
            if not quiet:
                say(f"fixed: {source.path}")
    return changed
