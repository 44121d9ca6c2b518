"""The table of pages: one entry for each; those with a name are in the menu, in this order."""

from evalwright.host.access.quotas import BYTES, FREE, RUN, Stores
from evalwright.host.web import sign_in
from evalwright.host.web.page import OPEN, SIGNED_IN, WebPage
from evalwright.host.web.pages import (
    agents,
    compare,
    export_task,
    prompts,
    review,
    run,
    runs,
    scorecard,
    signals,
    start,
    task,
    trends,
)

PAGES = [
    WebPage("GET", "/", runs.show, ("runs:read",), "Runs"),
    WebPage("GET", "/start", start.show, ("runs:create",)),
    WebPage("POST", "/start", start.start, ("runs:create",), stores=RUN),
    WebPage("POST", "/demo", start.demo, ("runs:create",), stores=RUN),
    WebPage("GET", "/runs/{runId}", run.show, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/live", run.live, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/verdict", run.verdict, ("runs:read",)),
    WebPage("POST", "/runs/{runId}/again", start.again, ("runs:create",), stores=RUN),
    WebPage("POST", "/runs/{runId}/cancel", run.cancel, ("runs:cancel",), stores=FREE),
    WebPage("POST", "/runs/{runId}/pause", run.pause, ("runs:cancel",), stores=FREE),
    WebPage("POST", "/runs/{runId}/resume", run.resume, ("runs:cancel",), stores=BYTES),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}", task.show, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/result", scorecard.result, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/steps/{step}", task.payload, ("runs:read",)),
    WebPage("GET", "/prompts", prompts.show, ("prompts:read",), "Prompts"),
    WebPage("GET", "/prompts/file", prompts.file, ("prompts:read",)),
    WebPage("POST", "/prompts/remove", prompts.remove, ("prompts:write",), stores=FREE),
    WebPage("GET", "/compare", compare.show, ("runs:read",), "Compare"),
    WebPage("GET", "/compare/progress", compare.progress, ("runs:read",)),
    WebPage("GET", "/compare/task", compare.case, ("runs:read",)),
    WebPage("GET", "/compare/report.zip", compare.download, ("runs:read",)),
    WebPage("GET", "/trends", trends.show, ("runs:read",), "Trends"),
    WebPage("GET", "/signals", signals.show, ("runs:read",), "Signals"),
    WebPage("GET", "/agents", agents.show, agents.READERS, "Agents"),
    WebPage("GET", "/agents/{agentId}", agents.agent, agents.READERS),
    WebPage(
        "POST",
        "/agents/{agentId}",
        agents.change,
        agents.DEPLOYERS,
        stores=Stores("runs", asks=True),
    ),
    WebPage("POST", "/agents/{agentId}/vote", agents.vote, ("approvals:respond",), stores=BYTES),
    WebPage("GET", "/review", review.show, ("runs:read",), "Review"),
    WebPage("POST", "/review/next", review.go_on, ("runs:annotate",), stores=BYTES),
    WebPage("GET", "/review/{runId}/{taskId}", review.item, ("runs:read",)),
    WebPage(
        "POST",
        "/review/{runId}/{taskId}",
        review.save,
        ("runs:annotate",),
        stores=Stores("annotations", asks=True),
    ),
    WebPage(
        "POST",
        "/review/{runId}/{taskId}/take",
        review.take_item,
        ("runs:annotate",),
        stores=BYTES,
    ),
    WebPage("GET", "/review/{runId}/{taskId}/test.yaml", export_task.as_test, ("runs:read",)),
]
KEY_PAGES = [  # only of a host: `evalwright view` has a door of its own
    WebPage("GET", "/sign-in", sign_in.show, OPEN),
    WebPage("POST", "/sign-in", sign_in.enter, OPEN, stores=FREE),
    WebPage("POST", "/sign-out", sign_in.leave, SIGNED_IN, stores=FREE),
]
