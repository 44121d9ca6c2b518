"""What the action asks of GitHub: artifacts and comments, by the standard library alone."""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPMessage
from typing import Any

MOST_ARTIFACT = 512 << 20  # bytes, packed and unpacked
MOST_PAGES = 30
TRIES = 3
Document = dict[str, Any]


def find_artifact(name: str, branch: str) -> bytes | None:
    """The newest artifact of a branch; one that a fork's branch of the same name made is none."""
    query = urllib.parse.urlencode({"name": name, "per_page": 100})
    for page in range(1, MOST_PAGES + 1):
        found = api("GET", f"{repository()}/actions/artifacts?{query}&page={page}")["artifacts"]
        own = [each for each in found if is_of_branch(each, branch)]
        if own:  # the newest come first
            newest = max(own, key=lambda each: str(each["created_at"]))
            return download(newest["archive_download_url"])
        if len(found) < 100:
            break
    return None


def is_of_branch(artifact: Document, branch: str) -> bool:
    """Whether a job of this repository's own branch kept an artifact that is still there."""
    run = artifact.get("workflow_run") or {}
    is_own = run.get("head_repository_id") == run.get("repository_id")
    return not artifact["expired"] and is_own and run.get("head_branch") == branch


def comments_of(number: int) -> Iterator[Document]:
    """The comments of a pull request."""
    for page in range(1, MOST_PAGES + 1):
        found = api("GET", f"{repository()}/issues/{number}/comments?per_page=100&page={page}")
        yield from found
        if len(found) < 100:
            return


def own_login() -> str | None:
    """Whose comments are ours; the token of a job, or of an app, cannot ask."""
    try:
        return str(api("GET", "/user")["login"])
    except OSError:
        return None


def api(method: str, path: str, body: Document | None = None) -> Any:
    """Ask GitHub."""
    url = os.environ.get("GITHUB_API_URL", "https://api.github.com") + path
    data = None if body is None else json.dumps(body).encode()
    return json.loads(ask(urllib.request.Request(url, data, with_token(), method=method)))


def download(url: str) -> bytes:
    """What an address leads to; the token stays with GitHub where it leads elsewhere."""
    try:
        return ask(urllib.request.Request(url, headers=with_token()))
    except urllib.error.HTTPError as error:
        if error.code not in {301, 302, 303, 307, 308}:
            raise
        return ask(urllib.request.Request(error.headers["Location"]))


def with_token() -> dict[str, str]:
    """The headers of a request to GitHub."""
    return {
        "Authorization": f"Bearer {os.environ['EVALS_TOKEN']}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, headers: HTTPMessage | None = None, **__: Any) -> None:
        """Leave it to the caller, who knows what may be sent there."""


def ask(request: urllib.request.Request) -> bytes:
    """The body of an answer; a server that is busy is asked again."""
    opener = urllib.request.build_opener(_NoRedirects)
    for attempt in range(1, TRIES + 1):
        try:
            with opener.open(request, timeout=60) as answer:
                return bytes(answer.read(MOST_ARTIFACT))
        except urllib.error.HTTPError as error:
            # a POST may have had its effect, and there is to be one comment
            again = request.get_method() != "POST" and error.code in {429, 500, 502, 503, 504}
            if not again or attempt == TRIES:
                raise
        time.sleep(attempt)
    raise AssertionError("unreachable")


def repository() -> str:
    """The path of the repository's part of the API."""
    return f"/repos/{os.environ['GITHUB_REPOSITORY']}"
