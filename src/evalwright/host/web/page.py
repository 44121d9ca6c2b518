"""A page: its entry in the table, the request for it, and the templates that it is made of."""

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, quote

from minijinja import Environment
from starlette.requests import Request
from starlette.responses import Response

from evalwright import __version__
from evalwright.contracts import amounts
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.times import iso_time
from evalwright.host.access.keys import Principal
from evalwright.host.access.quotas import Stores
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall
from evalwright.host.web.folder_runs import FolderRuns
from evalwright.host.web.run_views import views_of
from evalwright.host.web.sessions import WebSession
from evalwright.host.web.static_files import address_of
from evalwright.reports.design import files as design
from evalwright.reports.design.markup import DESIGN, as_markup, templates_of
from evalwright.reports.formats.text import display_text
from evalwright.store.protocol import RunFilter

if TYPE_CHECKING:
    from evalwright.host.host import Host

NOBODY = Principal("", "", None, frozenset(), "anonymous")
SEE_OTHER = 303
RUN_NAMES = ("baseline", "new", "run")  # parameters that name runs
RUN_NUMBER = re.compile(r"[1-9][0-9]{0,14}")
MOST_FIELDS = 1000
LIGHT = 60_000  # events that a page reads at most before it is sent
SMALL = 5000  # events of what a page is made of, up to which it comes as a whole
READY_SECONDS = 0.03  # that a page waits for more than that; then it comes without it

T = TypeVar("T")

_MINUTE, _HOUR, _DAY, _MONTH = 60, 3600, 86_400, 30 * 86_400


class PageCall(ApiCall):
    """A request for a page, or for a part of one."""

    def __init__(
        self,
        host: "Host",
        request: Request,
        correlation_id: str,
        *,
        is_local: bool,
        folder: FolderRuns | None = None,
    ) -> None:
        super().__init__(host, request, NOBODY, correlation_id)
        self.is_local = is_local  # the log of this machine, opened by `evalwright view`
        self.folder = folder  # where that was, whose suites may be run
        self.session = WebSession("", NOBODY)
        self.form: dict[str, list[str]] = {}
        self.menu: list[dict[str, Any]] = []  # what the layout links to: name, address, icon
        self._numbered: dict[str, str] = {}  # ids of runs by the numbers that the address has
        self.weight = 0  # events of what the page is made of, as far as it is known

    @property
    def is_part(self) -> bool:
        """Whether a script asks, which wants a part of a page, or a message for one."""
        return "hx-request" in self.request.headers

    @property
    def is_patient(self) -> bool:
        """Whether the visitor waits for everything: a script or a form, or somebody without one."""
        return self.is_part or self.request.method != "GET" or bool(self.asked("wait"))

    @property
    def address(self) -> str:
        """What was asked for."""
        query = self.request.url.query
        return f"{self.request.url.path}?{query}" if query else self.request.url.path

    @property
    def patient_address(self) -> str:
        """The same, with everything on one page."""
        return f"{self.address}{'&' if '?' in self.address else '?'}wait=1"

    def may(self, scope: str) -> bool:
        """Whether the visitor has a scope: what they may not do is not offered."""
        return self.principal.may(scope)

    def field(self, name: str) -> str:
        """A field of the form, without the spaces around it."""
        return self.form.get(name, [""])[-1].strip()

    def fields(self, name: str) -> list[str]:
        return [value.strip() for value in self.form.get(name, []) if value.strip()]

    def asked(self, name: str) -> str:
        return self.request.query_params.get(name, "").strip()

    def asked_runs(self, *names: str) -> list[str]:
        """The ids of the runs that parameters name, each once, by id or by number."""
        query = self.request.query_params
        given = [value.strip() for name in names for value in query.getlist(name)]
        return list(dict.fromkeys(self._numbered.get(each, each) for each in given if each))

    async def find_numbered(self) -> None:
        """Let the numbers of runs stand for their ids, in the path and in parameters."""
        given = [self.path.get("runId", "")]
        given += [
            value.strip() for name in RUN_NAMES for value in self.request.query_params.getlist(name)
        ]
        wanted = {each for each in given if RUN_NUMBER.fullmatch(each)}
        if not wanted:
            return

        def read() -> dict[str, str]:
            found = {each: self.log.find_runs(RunFilter(number=int(each)), 1) for each in wanted}
            return {each: runs[0].run_id for each, runs in found.items() if runs}

        self._numbered = await self.in_reader(read)
        if self.path.get("runId") in self._numbered:
            self.path = {**self.path, "runId": self._numbered[self.path["runId"]]}


SIGNED_IN: tuple[str, ...] = ()
OPEN = None

PageHandler = Callable[[PageCall], Awaitable[Response]]


class WebPage(NamedTuple):
    """A method and a path with their handler; `menu` is the name in the menu, if it is there.

    A visitor needs one of the scopes; `SIGNED_IN` takes any key, and `OPEN` none at all.
    """

    method: str
    path: str
    handler: PageHandler
    scopes: tuple[str, ...] | None
    menu: str = ""
    icon: str = ""  # in the menu
    stores: Stores | None = None  # what its form does


def page(
    call: PageCall, template: str, *, title: str, status_code: int = 200, **values: Any
) -> Response:
    """A template in the layout, with what the layout needs; values are escaped."""
    path: str = call.request.scope["path"]
    waiting = views_of(call.host).waiting(call.principal.partition)
    counts = {"/review": waiting if call.may("runs:annotate") else 0}
    return part(
        call,
        template,
        status_code,
        title=title,
        menu=[
            {
                **entry,
                "is_here": _is_at(path, entry["address"]),
                "count": counts.get(entry["address"], 0),
            }
            for entry in call.menu
        ],
        sprite=as_markup(design.sprite()),
        is_local=call.is_local,
        place=call.principal.place,
        is_signed_in=bool(call.principal.key_id),
        version=__version__,
        asked_for=call.address,
        patient=call.patient_address,
        **values,
    )


def _is_at(path: str, address: str) -> str:
    """Whether a page is that of an address in the menu, or one of its part of the site."""
    is_within = address != "/" and path.startswith(f"{address}/")
    return "page" if path == address else "true" if is_within else ""


def part(call: PageCall, template: str, status_code: int = 200, **values: Any) -> Response:
    """A template without the layout, for a part of a page."""
    return Response(render(call, template, **values), status_code, media_type="text/html")


def render(call: PageCall, template: str, **values: Any) -> str:
    """The markup of a template; `csrf` and `may` are known in each."""
    return _environment().render_template(
        template, csrf=call.session.new_token(), may=call.may, **values
    )


class NotSoon(Exception):
    """Something takes so long to read that a page should come without it first."""


async def in_time(call: PageCall, making: Coroutine[Any, Any, T]) -> T | None:
    """What a page shows; None if it is heavy and not there in a moment, and nobody waits for it.

    The page then says that it is loading, and its script asks for the rest.
    """
    made = asyncio.ensure_future(making)
    while not made.done():
        await asyncio.wait((made,), timeout=None if call.is_patient else READY_SECONDS)
        if not made.done() and call.weight > SMALL:
            made.add_done_callback(forget)
            return None
    try:
        return made.result()
    except NotSoon:
        return None


def forget(made: "asyncio.Future[Any]") -> None:
    """See to it that nobody is told of a failure that the next request meets again."""
    if not made.cancelled():
        made.exception()


def see(address: str) -> Response:
    """The answer to a form that did something: the browser goes to another page."""
    return Response(status_code=SEE_OTHER, headers={"Location": address})


def run_address(run_id: str) -> str:
    """The address of a run."""
    return f"/runs/{quote(run_id, safe='')}"


def suite_address(suite_id: str) -> str:
    """The address of a suite, all its versions together."""
    return f"/suites/{quote(suite_id, safe='')}"


def task_address(run_id: str, task_id: str) -> str:
    """The address of a task of a run, with its trace; steps are fragments of it."""
    return f"{run_address(run_id)}/tasks/{quote(task_id, safe='')}"


def review_address(run_id: str, task_id: str) -> str:
    """The address of a task of a run in the review."""
    return f"/review/{quote(run_id, safe='')}/{quote(task_id, safe='')}"


def read_form(raw: bytes) -> dict[str, list[str]]:
    """The fields of a form, with lines that end as elsewhere; raises `ApiError` 400 for too many.

    Browsers send each end of a line as CR and LF, which no answer of an agent would equal.
    """
    text = raw.decode("utf-8", "replace")
    try:
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        message = f"the form has more than {MOST_FIELDS:,} fields"
        raise ApiError(400, "validation_error", message) from None
    return {name: [each.replace("\r\n", "\n") for each in given] for name, given in fields.items()}


# Templates.


@cache
def _environment() -> Environment:
    return templates_of(
        "evalwright.host.web",
        DESIGN,
        # Hidden characters of texts are written out; markup is no plain text.
        finalizer=lambda value: display_text(value) if type(value) is str else value,
        globals={
            "static": lambda name: _href(address_of(name)),
            "run_address": lambda run_id: _href(run_address(run_id)),
            "task_address": lambda run_id, task_id: _href(task_address(run_id, task_id)),
            "review_address": lambda run_id, task_id: _href(review_address(run_id, task_id)),
        },
        filters={
            "exact": lambda text: as_markup(escape(text)),
            "when": lambda at_us: as_markup(time_html(at_us)),
            "left": lambda at_us: as_markup(time_left_html(at_us)),
            "suite_name": suite_name,
            "dollars": amounts.dollars,
            "percent": amounts.percent,
            "score": amounts.score,
        },
        trim_blocks=True,
        lstrip_blocks=True,
    )


def warm_up() -> None:
    """Read all templates and static files."""
    address_of("style.css")
    _environment()


def _href(address: str) -> Any:
    """An address for an attribute; slashes, which the templates would write as numbers, stay."""
    return as_markup(escape(display_text(address)))


def time_html(at_us: int, now_s: float | None = None) -> str:
    """A time, told from now on; the script adds the local time, and keeps the words true."""
    moment = iso_time(at_us)
    words = time_words(at_us / 1_000_000, time.time() if now_s is None else now_s)
    return f'<time datetime="{moment}" title="{moment}">{words}</time>'


def time_left_html(at_us: int, now_s: float | None = None) -> str:
    """How long it takes until a time, which the script counts down."""
    left_s = at_us / 1_000_000 - (time.time() if now_s is None else now_s)
    return f'<time datetime="{iso_time(at_us)}" data-left>{left_words(left_s)}</time>'


def left_words(left_s: float) -> str:
    """A time that is left, as well as a pace can tell it."""
    minutes = max(0, math.ceil(left_s / _MINUTE))
    if minutes <= 1:
        return "less than 1 min"
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"about {hours}{minutes % 60} min"


def time_words(at_s: float, now_s: float) -> str:
    """How long ago something was; after a month, its day."""
    ago = max(0.0, now_s - at_s)
    if ago < _MINUTE:
        return "just now"
    if ago < _HOUR:
        return f"{ago // _MINUTE:.0f} min ago"
    if ago < _DAY:
        return f"{ago // _HOUR:.0f} h ago"
    if ago < _MONTH:
        days = int(ago // _DAY)
        return "1 day ago" if days == 1 else f"{days} days ago"
    return iso_time(int(at_s * 1_000_000))[:10]
