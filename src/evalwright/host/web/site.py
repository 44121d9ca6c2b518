"""The site: finds the page of a request, lets the visitor in, and answers in every case.

Whatever a page holds, no script but the site's own is run, nothing is loaded from elsewhere, no
other page can frame it, and no cache keeps it.
"""

import gzip
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from evalwright.contracts.errors import DamagedEventLog
from evalwright.host.access.quotas import BYTES, FREE, RUN, Stores
from evalwright.host.http.app import error_response, known_error
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, RouteTable, read_raw
from evalwright.host.web import sign_in
from evalwright.host.web.page import (
    OPEN,
    SIGNED_IN,
    PageCall,
    WebPage,
    page,
    part,
    read_form,
    see,
    warm_up,
)
from evalwright.host.web.pages import (
    agents,
    compare,
    design,
    export_task,
    home,
    matrix,
    prompts,
    review,
    run,
    run_tasks,
    runs,
    signals,
    start,
    suite,
    suites,
    task,
    trends,
)
from evalwright.host.web.sessions import WebSession
from evalwright.host.web.sign_in import TOKEN, SignIn, cookie_name, own_address
from evalwright.host.web.static_files import PREFIX, file_at
from evalwright.signals.masking.credentials import mask_strictly

if TYPE_CHECKING:
    from evalwright.host.host import Host

DAMAGE = (DamagedEventLog, msgspec.MsgspecError)
DAMAGED = "damaged_log"
MOST_FORM_BYTES = 1024 * 1024
PACKED_FROM = 1024  # bytes, from which on a page is compressed
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TITLES = {
    400: "This cannot be done",
    401: "Sign in again",
    403: "Not allowed",
    404: "Not found",
    409: "Not now",
    429: "Too many requests",
    503: "Not available",
}


# The table of pages: one entry for each; those with a name are in the menu, in this order.
PAGES = [
    WebPage("GET", "/", home.show, ("runs:read",), "Home", "home"),
    WebPage("GET", "/runs", runs.show, ("runs:read",), "Runs", "runs"),
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
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/drawer", run_tasks.drawer, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/findings", task.findings, ("runs:read",)),
    WebPage("GET", "/runs/{runId}/tasks/{taskId}/steps/{step}", task.payload, ("runs:read",)),
    WebPage(
        "GET",
        "/runs/{runId}/tasks/{taskId}/attachments/{digest}",
        task.attachment,
        ("runs:read",),
    ),
    WebPage("GET", "/suites", suites.show, ("runs:read",), "Suites", "suite"),
    WebPage("GET", "/suites/{suite}", suite.show, ("runs:read",)),
    WebPage("GET", "/prompts/file", prompts.file, ("prompts:read",)),
    WebPage("POST", "/prompts/remove", prompts.remove, ("prompts:write",), stores=FREE),
    WebPage("GET", "/matrix", matrix.show, ("runs:read",)),
    WebPage("GET", "/compare", compare.show, ("runs:read",), "Compare", "compare"),
    WebPage("GET", "/compare/progress", compare.progress, ("runs:read",)),
    WebPage("GET", "/compare/task", compare.case, ("runs:read",)),
    WebPage("GET", "/compare/report.zip", compare.download, ("runs:read",)),
    WebPage("GET", "/trends", trends.show, ("runs:read",)),
    WebPage("GET", "/signals", signals.show, ("runs:read",), "Signals", "shield"),
    WebPage("GET", "/agents", agents.show, agents.READERS, "Agents", "agent"),
    WebPage("GET", "/agents/{agentId}", agents.agent, agents.READERS),
    WebPage(
        "POST",
        "/agents/{agentId}",
        agents.change,
        agents.DEPLOYERS,
        stores=Stores("runs", asks=True),
    ),
    WebPage("POST", "/agents/{agentId}/vote", agents.vote, ("approvals:respond",), stores=BYTES),
    WebPage("GET", "/review", review.show, ("runs:read",), "Review", "review"),
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
    WebPage("GET", "/prompts", prompts.show, ("prompts:read",), "Prompts", "prompt"),
]
LOCAL_PAGES = [WebPage("GET", "/design", design.show, ("runs:read",))]  # for who develops them
KEY_PAGES = [  # only of a host: `evalwright view` lets in by a link
    WebPage("GET", "/sign-in", sign_in.show, OPEN),
    WebPage("POST", "/sign-in", sign_in.enter, OPEN, stores=FREE),
    WebPage("POST", "/sign-out", sign_in.leave, SIGNED_IN, stores=FREE),
]


class Site:
    """All pages, for those who are signed in."""

    def __init__(self, host: "Host", sign_in: SignIn) -> None:
        self._host = host
        self._sign_in = sign_in
        # The first visitor need not wait until templates are read and files are compressed.
        threading.Thread(target=warm_up, daemon=True).start()
        self._pages = RouteTable([*PAGES, *(LOCAL_PAGES if sign_in.is_local else KEY_PAGES)])

    async def __call__(self, asked: ApiCall) -> Response:
        call = PageCall(
            self._host,
            asked.request,
            asked.correlation_id,
            is_local=self._sign_in.is_local,
            folder=self._sign_in.folder,
        )
        try:
            with ExitStack() as held:
                held.enter_context(self._host.requests.hold())
                response = await self._answer(call, held)
        except Exception as error:  # noqa: BLE001 - every failure gets a page
            response = _failure(call, error)
        asked.principal = call.principal
        asked.path, asked.template = call.path, call.template
        response.headers.update(HEADERS)
        if "cache-control" not in response.headers:
            response.headers["Cache-Control"] = "no-store"
        body = getattr(response, "body", b"")
        is_text = response.headers.get("content-type", "").startswith("text/html")
        accepted = call.request.headers.get("accept-encoding", "")
        if is_text and len(body) >= PACKED_FROM and "gzip" in accepted:
            response.body = gzip.compress(body, 5, mtime=0)
            response.headers["Content-Length"] = str(len(response.body))
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "Accept-Encoding"
        return response

    async def _answer(self, call: PageCall, held: ExitStack) -> Response:
        self._sign_in.check_address(call.request)
        path: str = call.request.scope["path"]
        is_static, is_local = path.startswith(PREFIX), self._sign_in.is_local
        call.template = f"{PREFIX}{{file}}" if is_static else None
        if is_static and not is_local:
            return _static(call, path, is_public=True)
        found = self._pages.find(call.request.method, path)
        refusal: ApiError | None = None  # why a session has ended
        try:
            session = await self._sign_in.find(call)
        except ApiError as error:
            if error.status != 401:
                raise
            refusal = error
        else:
            if session is not None:
                call.session, call.principal = session, session.principal
                call.menu = [
                    {"name": entry.menu, "address": entry.path, "icon": entry.icon}
                    for entry in PAGES
                    if entry.menu and any(map(call.may, entry.scopes or ()))
                ]
        if not call.principal.key_id and (
            isinstance(found, ApiError) or found[0].scopes is not OPEN
        ):
            if call.is_part:
                raise refusal or ApiError(401, "unauthenticated", "the session has ended")
            return self._sign_in.refuse(call, refusal)
        if is_static:
            return _static(call, path, is_public=False)
        if is_local and call.asked(TOKEN):
            return see("/")  # the link was opened again: its token leaves the address
        if isinstance(found, ApiError):
            return self._elsewhere(call, found)
        entry, call.path = found
        call.template = entry.path
        await call.find_numbered()
        await self._admit(call, entry, held)
        async with call.storing(entry.stores):
            response = await entry.handler(call)
        return self._host.response_budget.counted(response, call.principal.tenant)

    def _elsewhere(self, call: PageCall, unknown: ApiError) -> Response:
        """Lead on from an address that people guess, with a slash at its end or `/runs`."""
        if unknown.status == 405:
            raise unknown
        plain = call.request.scope["path"].rstrip("/")
        is_page = not isinstance(self._pages.find("GET", plain), ApiError)
        if call.request.method not in ("GET", "HEAD") or not is_page:
            raise ApiError(404, "not_found", "there is no such page")
        query = call.request.scope["query_string"].decode("latin-1")
        return see(own_address(f"{quote(plain)}?{query}" if query else quote(plain)))

    async def _admit(self, call: PageCall, entry: WebPage, held: ExitStack) -> None:
        """Count the request, and check scopes and, of a form, its token, in this order."""
        visitor = call.principal
        if visitor.key_id:
            self._host.rates.count(visitor.key_id, visitor.tenant)
            held.enter_context(self._host.requests.hold_for(visitor.tenant))
        if entry.scopes and not any(map(call.may, entry.scopes)):
            needed = " or ".join(entry.scopes)
            raise ApiError(403, "forbidden", f"your key lacks the scope {needed}")
        if entry.method != "GET":
            _refuse_foreign(call.request)
            call.raw = await read_raw(call.request, MOST_FORM_BYTES)
            call.form = read_form(call.raw)
            session = call.session
            if not visitor.key_id:  # signing in: the token is that of a cookie
                given = call.request.cookies.get(cookie_name(call.request, "form"), "")
                session = WebSession(given, visitor)
            token = call.request.headers.get("x-csrf-token") or call.field("csrf")
            if not session.id or not session.accepts(token):
                message = "the form is out of date; open the page and retry"
                raise ApiError(403, "forbidden", message)


def _static(call: PageCall, path: str, *, is_public: bool) -> Response:
    found = file_at(path)
    if found is None:
        raise ApiError(404, "not_found", "there is no such file")
    accepted = call.request.headers.get("accept-encoding", "")
    return found.response(accepted, is_public=is_public)


def _refuse_foreign(request: Request) -> None:
    """Refuse a form that another site has sent."""
    headers = request.headers
    origin = headers.get("origin")
    is_ours = origin is None or origin.partition("://")[2] == headers.get("host")
    if not is_ours or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise ApiError(403, "forbidden", "another site has sent this form; open the page and retry")


def _failure(call: PageCall, error: Exception) -> Response:
    """A page for a failure; a message where a script asked, and JSON where a program did."""
    known = known_error(error, call.correlation_id)
    if isinstance(error, DAMAGE):
        known = ApiError(500, DAMAGED, _damage(call, error))
    if "application/json" in call.request.headers.get("accept", ""):
        return error_response(known, call.correlation_id)
    title = TITLES.get(known.status, "Something went wrong")
    if known.code == DAMAGED:
        title = "This run cannot be read"
    told: dict[str, Any] = {
        "message": known.message,
        "correlation_id": call.correlation_id if known.status >= 500 else "",
    }
    if call.is_part:
        response = part(call, "failure_note.html", known.status, **told)
    else:
        response = page(call, "failure.html", title=title, status_code=known.status, **told)
    response.headers.update(known.headers or {})
    return response


def _damage(call: PageCall, error: Exception) -> str:
    """What to do about a run whose log is damaged; the pages of others are not affected."""
    named = [call.path.get("runId", ""), *call.request.query_params.getlist("run")]
    run_ids = [each for each in dict.fromkeys(named) if each]
    said = " or ".join(run_ids) or "that this page is of"
    what = f"an event of the run {said} cannot be read"
    for run_id in run_ids:
        before, _, fault = str(error).partition(f"run {run_id} ")
        if fault and before != str(error):
            what = f"the run {run_id} {mask_strictly(fault)}"
    return (
        f"{what}: the log was damaged or changed. Restore it from a backup, or the run from an "
        "export with evalwright db import."
    )
