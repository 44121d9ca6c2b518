"""The table of pages: one entry for each; those with a name are in the menu, in this order."""

from evalwright.host.web import runs_page, sign_in
from evalwright.host.web.page import OPEN, SIGNED_IN, WebPage

PAGES = [
    WebPage("GET", "/", runs_page.show, ("runs:read",), "Runs"),
]
KEY_PAGES = [  # only of a host: `evalwright view` has a door of its own
    WebPage("GET", "/sign-in", sign_in.show, OPEN),
    WebPage("POST", "/sign-in", sign_in.enter, OPEN),
    WebPage("POST", "/sign-out", sign_in.leave, SIGNED_IN),
]
