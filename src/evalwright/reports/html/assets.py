"""What the pages share: the style sheet beside them, the overview's script within it."""

from importlib.resources import files

from evalwright.reports.html.templating import STYLE_SHEET, content_policy, source_hash

ASSETS: dict[str, bytes] = {"report.css": STYLE_SHEET}
OVERVIEW_SCRIPT = (files("evalwright.reports.html") / "overview.js").read_text(encoding="utf-8")

_STYLES = "'self' file:"
CASE_POLICY = content_policy(_STYLES)
# What the overview's own script loads are the parts of its table.
OVERVIEW_POLICY = content_policy(_STYLES, f"{source_hash(OVERVIEW_SCRIPT)} 'strict-dynamic'")
