"""Signing in with a key, and out again."""

from starlette.responses import Response

from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import client_address
from evalwright.host.web.doors import own_address, set_cookie, sign_in_form
from evalwright.host.web.page import PageCall, see
from evalwright.host.web.sessions import sign_in, sign_out

REMEMBERED = 86_400  # seconds


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
