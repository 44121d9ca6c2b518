"""A browser without scripts: it keeps cookies, and sends forms with the token of the last page."""

import gzip
import http.client
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

TOKEN = re.compile(r'name="csrf" (?:content|value)="([^"]+)"')


class Answer(NamedTuple):
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    cookies: list[str]
    text: str

    @property
    def location(self) -> str:
        """Where the browser is sent."""
        return self.headers.get("location", "")


class Visitor:
    """Somebody with a browser."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.address = (str(parts.hostname), int(parts.port or 0))
        self.cookies: dict[str, str] = {}
        self.token = ""

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request, without following where it leads; `_` in names of headers means `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            given["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection(*self.address, timeout=240)
        try:
            connection.request(method, path, body, given)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        if found.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        set_cookies = response.headers.get_all("set-cookie") or []
        for each in set_cookies:
            self._keep(each)
        text = content.decode()
        if token := TOKEN.search(text):
            self.token = token[1]
        return Answer(response.status, found, set_cookies, text)

    def _keep(self, cookie: str) -> None:
        name, _, rest = cookie.partition("=")
        value = rest.partition(";")[0].strip('"')
        if "Max-Age=0" in cookie:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value

    def get(self, path: str, **headers: str) -> Answer:
        """GET."""
        return self.send("GET", path, **headers)

    def post(self, path: str, fields: Mapping[str, object] | None = None, **headers: str) -> Answer:
        """Send a form; its token is that of the last page, unless another is given."""
        form = {"csrf": self.token, **(fields or {})}
        headers.setdefault("Content_Type", "application/x-www-form-urlencoded")
        return self.send("POST", path, urlencode(form, doseq=True).encode(), **headers)

    def sign_in(self, key: str) -> Answer:
        """Open the form, and send a key."""
        self.get("/sign-in")
        return self.post("/sign-in", {"key": key, "next": "/"})


def signed_in(url: str, key: str) -> Visitor:
    """Somebody who has signed in, which must be possible, and has a page open."""
    visitor = Visitor(url)
    answer = visitor.sign_in(key)
    assert answer.status == 303, answer.text
    visitor.get("/")
    return visitor
