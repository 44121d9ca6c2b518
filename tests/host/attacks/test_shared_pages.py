"""Pages of a log that many streams read: made once, and never too old for a stream."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from builders import a_suite
from evalwright.host.streams.cache import LogPage, Made, PageKey, SharedCache
from evalwright.host.v1 import events
from host.server import ServedHost

FOLLOWERS = 12
KEY = PageKey("acme", "run_1", -1, "updates")
FULL, OVER = (
    LogPage(b"full", 9, is_end=False, is_over=False),
    LogPage(b"over", 9, is_end=True, is_over=True),
)
SO_FAR = LogPage(b"so far", 9, is_end=True, is_over=False)


class Making:
    """Makes pages, one for each call, and lets others run meanwhile."""

    def __init__(self, *pages: LogPage | Exception) -> None:
        self._pages = list(pages)
        self.made = 0

    async def __call__(self) -> Made[LogPage]:
        page = self._pages[self.made]
        self.made += 1
        await asyncio.sleep(0)
        if isinstance(page, Exception):
            raise page
        return len(page.content), page, page.is_final


def a_cache(most_bytes: int = 1000) -> SharedCache[PageKey, LogPage]:
    return SharedCache(most_bytes, is_current=True)


async def ask(
    cache: SharedCache[PageKey, LogPage], make: Callable[[], Awaitable[Made[LogPage]]], times: int
) -> list[LogPage]:
    return await asyncio.gather(*(cache.get(KEY, make) for _ in range(times)))


@pytest.mark.parametrize("page", [FULL, OVER], ids=["full", "over"])
def test_a_page_that_cannot_change_is_made_once_for_all(page: LogPage) -> None:
    async def follow() -> list[LogPage]:
        cache, make = a_cache(), Making(page)
        return await ask(cache, make, FOLLOWERS) + await ask(cache, make, FOLLOWERS)

    assert asyncio.run(follow()) == [page] * FOLLOWERS * 2


def test_a_page_that_may_grow_is_made_again_for_who_came_while_it_was_made() -> None:
    async def follow() -> tuple[list[LogPage], int]:
        cache, make = a_cache(), Making(SO_FAR, OVER, OVER)
        return await ask(cache, make, FOLLOWERS), make.made

    assert asyncio.run(follow()) == ([SO_FAR] + [OVER] * (FOLLOWERS - 1), 2)


def test_a_page_that_could_not_be_made_is_made_when_it_is_asked_for_again() -> None:
    async def follow() -> LogPage:
        cache, make = a_cache(), Making(OSError("the disk is gone"), FULL)
        with pytest.raises(OSError, match="the disk is gone"):
            await cache.get(KEY, make)
        return await cache.get(KEY, make)

    assert asyncio.run(follow()) == FULL


def test_no_more_is_kept_than_the_bound_allows_and_the_last_asked_for_stays() -> None:
    async def follow() -> list[int]:
        cache = a_cache(most_bytes=len(FULL.content) * 2)
        making = [Making(FULL, FULL) for _ in range(3)]
        for number in (0, 1, 0, 2, 0, 1):
            await cache.get(KEY._replace(after=number), making[number])
        return [make.made for make in making]

    assert asyncio.run(follow()) == [1, 2, 1]


def test_streams_of_an_ended_run_share_its_pages(
    served: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = events.make_page

    def counted(run, after: int, *more, **options) -> LogPage:
        made.append(after)
        return make(run, after, *more, **options)

    monkeypatch.setattr(events, "make_page", counted)
    caller = served.caller()
    run_id = caller.evaluate(a_suite(300))
    made.clear()
    streams = [caller.frames(run_id) for _ in range(3)]
    assert streams[0] == streams[1] == streams[2]
    assert [frame.id for frame in streams[0]] == list(range(len(streams[0])))
    assert len(made) == len(set(made)) > 1
