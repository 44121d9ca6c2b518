"""The report on two runs, as a download."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from evalwright.host.http.routing import ApiCall, ApiOperation, ResponseDoc, Route
from evalwright.host.library.comparisons import compare_for
from evalwright.host.v1.schemas import ID, RUN_ID, query, refusals

TAG = "runs"
MEDIA_TYPE = "application/zip"

_CHUNK = 256 * 1024


class Download(StreamingResponse):
    """A file that is deleted when it was sent or the client has left."""

    def __init__(self, file: Path, held: AsyncExitStack) -> None:
        headers = {
            "Content-Disposition": 'attachment; filename="compare-report.zip"',
            "Content-Length": str(file.stat().st_size),
            "Cache-Control": "no-store",
        }
        super().__init__(_chunks(file), media_type=MEDIA_TYPE, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        async with self._held:
            await super().__call__(scope, receive, send)


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK):
            yield chunk


async def download(call: ApiCall) -> Response:
    """Compare a run with a baseline and return the report, with secrets masked."""
    async with AsyncExitStack() as held:
        archive = await compare_for(call, call.query["baseline"], call.path["runId"], held)
        return Download(archive, held.pop_all())
    raise AssertionError("a report is either refused or returned")


ROUTES = [
    Route(
        "GET",
        "/v1/runs/{runId}/compare-report",
        download,
        ApiOperation(
            id="downloadCompareReport",
            summary="Compare a run with a baseline; returns the report folder as a ZIP archive.",
            tag=TAG,
            parameters=(RUN_ID, query("baseline", ID, "The run to compare with.", required=True)),
            answers={
                200: ResponseDoc("The report.", {"type": "string", "format": "binary"}, MEDIA_TYPE),
                **refusals(400, 404, 409, 422),
            },
        ),
        ("runs:read",),
    )
]
