"""The table of pages: one entry for each; those with a name are in the menu, in this order."""

from evalwright.host.web import (
    compare_page,
    made_test,
    prompts_page,
    review_page,
    run_page,
    runs_page,
    scorecard_page,
    sign_in,
    signals_page,
    start_page,
    trace_page,
    trends_page,
)
from evalwright.host.web.page import OPEN, SIGNED_IN, WebPage

PAGES = [
    WebPage("GET", "/", runs_page.show, ("runs:read",), "Runs"),
    WebPage("GET", "/start", start_page.show, ("runs:create",)),
    WebPage("POST", "/start", start_page.start, ("runs:create",)),
    WebPage("POST", "/demo", start_page.demo, ("runs:create",)),
    WebPage("GET", "/runs/{runId}", run_page.show, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/live", run_page.live, ("runs:read",)),
    WebPage("POST", "/runs/{runId}/again", start_page.again, ("runs:create",)),
    WebPage("POST", "/runs/{runId}/cancel", run_page.cancel, ("runs:cancel",)),
    WebPage("POST", "/runs/{runId}/pause", run_page.pause, ("runs:cancel",)),
    WebPage("POST", "/runs/{runId}/resume", run_page.resume, ("runs:cancel",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}", trace_page.show, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/result", scorecard_page.result, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/steps/{step}", trace_page.payload, ("runs:read",)),
    WebPage("GET", "/prompts", prompts_page.show, ("prompts:read",), "Prompts"),
    WebPage("GET", "/prompts/file", prompts_page.file, ("prompts:read",)),
    WebPage("POST", "/prompts/remove", prompts_page.remove, ("prompts:write",)),
    WebPage("GET", "/compare", compare_page.show, ("runs:read",), "Compare"),
    WebPage("GET", "/compare/task", compare_page.case, ("runs:read",)),
    WebPage("GET", "/compare/report.zip", compare_page.download, ("runs:read",)),
    WebPage("GET", "/trends", trends_page.show, ("runs:read",), "Trends"),
    WebPage("GET", "/signals", signals_page.show, ("runs:read",), "Signals"),
    WebPage("GET", "/review", review_page.show, ("runs:read",), "Review"),
    WebPage("POST", "/review/next", review_page.go_on, ("runs:annotate",)),
    WebPage("GET", "/review/{runId}/{taskId}", review_page.item, ("runs:read",)),
    WebPage("POST", "/review/{runId}/{taskId}", review_page.save, ("runs:annotate",)),
    WebPage("POST", "/review/{runId}/{taskId}/take", review_page.take_item, ("runs:annotate",)),
    WebPage("GET", "/review/{runId}/{taskId}/test.yaml", made_test.as_test, ("runs:read",)),
]
KEY_PAGES = [  # only of a host: `evalwright view` has a door of its own
    WebPage("GET", "/sign-in", sign_in.show, OPEN),
    WebPage("POST", "/sign-in", sign_in.enter, OPEN),
    WebPage("POST", "/sign-out", sign_in.leave, SIGNED_IN),
]
