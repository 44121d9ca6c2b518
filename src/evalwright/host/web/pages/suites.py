"""All suites: the verdict of the latest run of each, by agent."""

from starlette.responses import Response

from evalwright.host.web.page import PageCall, in_time, page
from evalwright.host.web.pages.home import read_suites
from evalwright.host.web.pages.runs import verdict_on


async def show(call: PageCall) -> Response:
    """The page."""
    found = await in_time(call, call.in_reader(lambda: read_suites(call)))
    if found is None:  # many runs are read for the first time
        words = "Reading the latest runs…"
        return page(call, "loading_page.html", title="Suites", words=words)
    verdict = verdict_on(found[1])
    return page(call, "suites.html", title="Suites", suites=found[1], verdict=verdict)
