"""The sheet of the design system: every token and part, in the theme of the reader."""

from starlette.responses import Response

from evalwright.host.web.page import PageCall, page
from evalwright.reports.design import files


async def show(call: PageCall) -> Response:
    """The page, in `evalwright view` only."""
    icons = sorted(name[2:] for name in files.symbols() if name.startswith("i-"))
    return page(call, "design.html", title="Design", icons=icons)
