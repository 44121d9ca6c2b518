"""What the pages share: the style sheet beside them, the overview's script within it."""

import base64
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

_HERE: Traversable = files("evalwright.reports.html")

ASSETS: dict[str, bytes] = {"report.css": (_HERE / "style.css").read_bytes()}
OVERVIEW_SCRIPT = (_HERE / "overview.js").read_text(encoding="utf-8")

_NOTHING_ELSE = "base-uri 'none'; form-action 'none'; style-src 'self' file:"


def case_policy() -> str:
    """The content security policy of a case page: a style sheet, nothing else."""
    return f"default-src 'none'; {_NOTHING_ELSE}"


def overview_policy() -> str:
    """The overview may also run its own script, and what that script loads: the table's parts."""
    digest = hashlib.sha256(OVERVIEW_SCRIPT.encode()).digest()
    script = f"'sha256-{base64.b64encode(digest).decode()}' 'strict-dynamic'"
    return f"default-src 'none'; {_NOTHING_ELSE}; script-src {script}"
