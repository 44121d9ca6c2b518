"""The table of pages: one entry for each; those with a name are in the menu, in this order."""

from evalwright.host.quotas import BYTES, FREE, RUN, Stores
from evalwright.host.web import (
    agents_page,
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
    WebPage("POST", "/start", start_page.start, ("runs:create",), stores=RUN),
    WebPage("POST", "/demo", start_page.demo, ("runs:create",), stores=RUN),
    WebPage("GET", "/runs/{runId}", run_page.show, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/live", run_page.live, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/verdict", run_page.verdict, ("runs:read",)),
    WebPage("POST", "/runs/{runId}/again", start_page.again, ("runs:create",), stores=RUN),
    WebPage("POST", "/runs/{runId}/cancel", run_page.cancel, ("runs:cancel",), stores=FREE),
    WebPage("POST", "/runs/{runId}/pause", run_page.pause, ("runs:cancel",), stores=FREE),
    WebPage("POST", "/runs/{runId}/resume", run_page.resume, ("runs:cancel",), stores=BYTES),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}", trace_page.show, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/result", scorecard_page.result, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/steps/{step}", trace_page.payload, ("runs:read",)),
    WebPage("GET", "/prompts", prompts_page.show, ("prompts:read",), "Prompts"),
    WebPage("GET", "/prompts/file", prompts_page.file, ("prompts:read",)),
    WebPage("POST", "/prompts/remove", prompts_page.remove, ("prompts:write",), stores=FREE),
    WebPage("GET", "/compare", compare_page.show, ("runs:read",), "Compare"),
    WebPage("GET", "/compare/progress", compare_page.progress, ("runs:read",)),
    WebPage("GET", "/compare/task", compare_page.case, ("runs:read",)),
    WebPage("GET", "/compare/report.zip", compare_page.download, ("runs:read",)),
    WebPage("GET", "/trends", trends_page.show, ("runs:read",), "Trends"),
    WebPage("GET", "/signals", signals_page.show, ("runs:read",), "Signals"),
    WebPage("GET", "/agents", agents_page.show, agents_page.READERS, "Agents"),
    WebPage("GET", "/agents/{agentId}", agents_page.agent, agents_page.READERS),
    WebPage(
        "POST",
        "/agents/{agentId}",
        agents_page.change,
        agents_page.DEPLOYERS,
        stores=Stores("runs", asks=True),
    ),
    WebPage(
        "POST", "/agents/{agentId}/vote", agents_page.vote, ("approvals:respond",), stores=BYTES
    ),
    WebPage("GET", "/review", review_page.show, ("runs:read",), "Review"),
    WebPage("POST", "/review/next", review_page.go_on, ("runs:annotate",), stores=BYTES),
    WebPage("GET", "/review/{runId}/{taskId}", review_page.item, ("runs:read",)),
    WebPage(
        "POST",
        "/review/{runId}/{taskId}",
        review_page.save,
        ("runs:annotate",),
        stores=Stores("annotations", asks=True),
    ),
    WebPage(
        "POST",
        "/review/{runId}/{taskId}/take",
        review_page.take_item,
        ("runs:annotate",),
        stores=BYTES,
    ),
    WebPage("GET", "/review/{runId}/{taskId}/test.yaml", made_test.as_test, ("runs:read",)),
]
KEY_PAGES = [  # only of a host: `evalwright view` has a door of its own
    WebPage("GET", "/sign-in", sign_in.show, OPEN),
    WebPage("POST", "/sign-in", sign_in.enter, OPEN, stores=FREE),
    WebPage("POST", "/sign-out", sign_in.leave, SIGNED_IN, stores=FREE),
]
