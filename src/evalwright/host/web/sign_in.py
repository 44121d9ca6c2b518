"""Signing in, and out: with a key on a host, with the link of `evalwright view` on one's own."""

import hmac
from typing import Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.host.access.keys import SCOPES, Principal
from evalwright.host.async_store import read_soon
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import client_address
from evalwright.host.web.folder_runs import FolderRuns
from evalwright.host.web.page import PageCall, page, see
from evalwright.host.web.sessions import WebSession, find_session, new_id, sign_in, sign_out
from evalwright.store.records import LOCAL_TENANT

TOKEN = "token"  # noqa: S105 - the name of a parameter
OWNER = Principal("local", LOCAL_TENANT, None, frozenset(SCOPES), "local")
REMEMBERED = 86_400  # seconds


class SignIn(Protocol):
    """Who is let in, and what the others are told."""

    @property
    def is_local(self) -> bool: ...  # whether the pages show the log of the visitor's own machine

    @property
    def folder(self) -> FolderRuns | None: ...  # whose suites may be run, there only

    def check_address(self, request: Request) -> None: ...  # raises `ApiError` 403

    async def find(self, call: PageCall) -> WebSession | None: ...  # the visitor's session

    def refuse(self, call: PageCall, refusal: ApiError | None) -> Response: ...


def cookie_name(request: Request, use: str = "session") -> str:
    """The name of a cookie: ports share their cookies, so each has names of its own."""
    try:
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    except ValueError:
        raise ApiError(400, "validation_error", "the header Host is no address") from None
    return f"evalwright_{use}_{port}" if port else f"evalwright_{use}"


def set_cookie(
    response: Response, request: Request, value: str, seconds: int, use: str = "session"
) -> None:
    """Give the browser a cookie that no script can read; no seconds take it away.

    `Secure` where the browser came by HTTPS, as it says or one of the proxies between.
    """
    told = request.headers.get("origin", ""), request.headers.get("x-forwarded-proto", "")
    response.set_cookie(
        cookie_name(request, use),
        value,
        max_age=seconds,
        httponly=True,
        samesite="lax",
        secure=any(each.startswith("https") for each in told),
    )


class KeySignIn:
    """Of a host: a key is exchanged for a session."""

    is_local = False
    folder = None

    def check_address(self, request: Request) -> None:
        """A host may have any name."""

    async def find(self, call: PageCall) -> WebSession | None:
        """The session that the cookie names; raises `ApiError` 401 if its key has ended."""
        given = call.request.cookies.get(cookie_name(call.request), "")
        if not given:
            return None
        records = call.host.records
        return await read_soon(records, given[:16], lambda: find_session(records, given))

    def refuse(self, call: PageCall, refusal: ApiError | None) -> Response:
        """The form to sign in, at the address that was asked for, which comes next."""
        is_expired = bool(call.request.cookies.get(cookie_name(call.request)))
        return sign_in_form(call, 401, refusal.message if refusal else "", is_expired=is_expired)


def sign_in_form(
    call: PageCall, status: int, error: str = "", *, next_page: str = "", is_expired: bool = False
) -> Response:
    """The form to sign in; its token is that of a cookie, as there is no session yet."""
    call.session = WebSession(new_id(), call.principal)
    if not next_page and call.request.method == "GET":  # what was asked for
        query = call.request.scope["query_string"].decode("ascii", "replace")
        path = call.request.scope["raw_path"].decode("ascii", "replace").partition("?")[0]
        next_page = own_address(f"{path}?{query}" if query else path)
    response = page(
        call,
        "sign_in.html",
        title="Sign in",
        status_code=status,
        error=error,
        is_expired=is_expired,
        next_page=next_page or "/",
        host_name=call.request.headers.get("host", ""),
        lasts=amounts.span(call.host.settings.session_s * 1000).removesuffix(" 0 min"),
    )
    set_cookie(response, call.request, call.session.id, 3600, "form")
    if status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="evalwright"'
    return response


def own_address(text: str) -> str:
    """An address of these pages, or that of the first page for any other."""
    is_path = text.startswith("/") and text.isascii() and text.isprintable() and "\\" not in text
    return text if is_path and not text.startswith("//") else "/"


class LinkSignIn:
    """Of `evalwright view`: the link that it prints lets one browser in, once."""

    is_local = True

    def __init__(self, port: int, folder: FolderRuns | None = None, path: str = "/") -> None:
        self.folder = folder
        self._names = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._session = WebSession(new_id(), OWNER)
        self._token: str | None = new_id()
        self.link = f"http://{self._names[0]}{path}?{TOKEN}={self._token}"

    def check_address(self, request: Request) -> None:
        """Refuse a name that somebody else has made to lead here."""
        if request.headers.get("host", "") not in self._names:
            raise ApiError(403, "forbidden", "this page is only for the machine that it runs on")

    async def find(self, call: PageCall) -> WebSession | None:
        given = call.request.cookies.get(cookie_name(call.request), "")
        is_right = hmac.compare_digest(given.encode(), self._session.id.encode())
        return self._session if is_right else None

    def refuse(self, call: PageCall, _refusal: ApiError | None) -> Response:
        """Exchange the token in the link for a cookie, or say how to get in.

        Programs that look at links before they are opened send HEAD, and do not use them up.
        """
        given = call.asked(TOKEN) if call.request.method == "GET" else ""
        if not given:
            return _no_entry(401, "Open the link that <code>evalwright view</code> has printed.")
        known = self._token
        if known is None or not hmac.compare_digest(given.encode(), known.encode()):
            message = (
                "This link has been used, or is not right: run <code>evalwright view</code> again."
            )
            return _no_entry(403, message)
        self._token = None
        response = see(own_address(call.request.scope["raw_path"].decode("ascii", "replace")))
        set_cookie(response, call.request, self._session.id, 30 * 86_400)
        return response


def _no_entry(status: int, message: str) -> Response:
    """A page that needs nothing else: style sheets are only for those who are let in, too."""
    return Response(_NO_ENTRY.format(message), status, media_type="text/html")


_NO_ENTRY = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Not let in · Evalwright</title>
</head>
<body><main><h1>Not let in</h1><p role="alert">{}</p></main></body>
</html>
"""


# The pages.


async def show(call: PageCall) -> Response:
    """The form."""
    if call.principal.key_id:
        return see("/")
    return sign_in_form(call, 200, next_page=own_address(call.asked("next") or "/"))


async def enter(call: PageCall) -> Response:
    """Exchange a key for a session, whose id no browser has had before."""
    host, next_page = call.host, own_address(call.field("next"))
    try:
        session = await call.in_reader(
            lambda: sign_in(host.records, call.field("key"), host.settings.session_s)
        )
    except ApiError as refusal:
        host.rates.count_address(client_address(call.request))
        message = "This is not a valid key." if refusal.code == "unauthenticated" else ""
        return sign_in_form(call, 401, message or refusal.message, next_page=next_page)
    response = see(next_page)
    # The cookie outlives its session, so that who comes back later is told that it has ended.
    set_cookie(response, call.request, session.id, int(host.settings.session_s) + REMEMBERED)
    set_cookie(response, call.request, "", 0, "form")
    return response


async def leave(call: PageCall) -> Response:
    """End the session, here and on every other host over the same database."""
    await call.in_reader(lambda: sign_out(call.host.records, call.session))
    response = see("/")
    set_cookie(response, call.request, "", 0)
    return response
