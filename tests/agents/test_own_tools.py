"""Tools of an agent's own: each call is recorded once, and for the task that it was made for."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import evalwright as ew


@pytest.fixture
def run(tmp_path):
    def run(agent, *checks, count=1, fixtures=None, **options):
        tasks = [
            ew.Task(
                f"t{n}", input=n, checks=list(checks) or [lambda output: True], fixtures=fixtures
            )
            for n in range(count)
        ]
        return ew.run(tasks, agent, db=tmp_path / "log.db", **options).tasks

    return run


def answering(tool, response):
    return {"toolResponses": [{"tool": tool, "response": response}]}


@ew.tool
def double(number):
    return number * 2


@ew.tool
async def triple(number):
    await asyncio.sleep(0)
    return number * 3


SHARED = ThreadPoolExecutor(3)


def in_new_threads(task):
    threads = [threading.Thread(target=double, args=(task.input,)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def in_own_pool(task):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(double, [task.input] * 3))


def in_shared_pool(task):
    list(SHARED.map(double, [task.input] * 3))


async def gathered(task):
    await asyncio.gather(*(triple(task.input) for _ in range(3)))


async def in_threads_of_a_loop(task):
    loop = asyncio.get_running_loop()
    await asyncio.gather(
        asyncio.to_thread(double, task.input),
        loop.run_in_executor(None, double, task.input),
        loop.run_in_executor(SHARED, double, task.input),
    )


@pytest.mark.parametrize(
    "agent", [in_new_threads, in_own_pool, in_shared_pool, gathered, in_threads_of_a_loop]
)
def test_calls_belong_to_the_task_that_made_them(run, agent):
    for name, task in run(agent, count=40, concurrency=20).items():
        assert [call.args["number"] for call in task.calls] == [int(name[1:])] * 3
        assert task.coverage.calls == "wrapped tool"


def test_a_call_in_a_thread_of_nobody_leaves_no_task_observed(run):
    asked, done = threading.Event(), threading.Event()

    def serve():
        asked.wait(60)
        double(1)
        done.set()

    threading.Thread(target=serve, daemon=True).start()  # before any task

    def agent(task):
        double(2)
        asked.set()
        assert done.wait(60)

    task = run(agent, ew.does_not_call("refund"))["t0"]
    assert not task.passed
    assert "not observed" in task.checks[0].reason
    assert "double was called in a thread that no task started" in task.checks[0].reason


def test_a_call_in_a_thread_of_nobody_contradicts_the_claim_that_there_is_none(run):
    def agent(task):
        contextvars.Context().run(double, 1)

    for claim in ("none", "task"):
        task = run(agent, ew.does_not_call("refund"), agent_tools=claim)["t0"]
        assert "double was called without `task`" in task.error["message"]


def test_a_wrapped_function_of_a_task_counts_in_any_thread(run):
    wrapped, done = [], threading.Event()
    begun = threading.Event()

    def serve():
        begun.wait(60)
        wrapped[0](7)
        done.set()

    threading.Thread(target=serve, daemon=True).start()

    def agent(task):
        wrapped.append(task.tools.wrap(abs, name="absolute"))
        begun.set()
        assert done.wait(60)

    assert [call.tool for call in run(agent)["t0"].calls] == ["absolute"]


class Shop:
    def get(self, order_id):
        return {"id": order_id}

    @ew.tool(name="shop.find")
    def find(self, *words, limit=3, **more):
        return [*words, limit, more]

    async def __call__(self, order_id):
        return order_id


@ew.tool
def numbers(count):
    yield from range(count)


@ew.tool
async def letters(count):
    for each in "abc"[:count]:
        yield each


def later(number):
    return triple.__wrapped__(number)  # a function that is not async gives something to await


async def of_every_kind(task):
    shop = Shop()
    found = [task.tools.wrap(shop.get)("A-17"), shop.find("red", limit=1, size=2)]
    found += [await task.tools.wrap(shop)("B"), list(numbers(2)), [x async for x in letters(2)]]
    found.append(await task.tools.wrap(later, name="later")(2))
    found.append(task.tools.wrap(shop.find)("blue"))  # it is a tool already
    return found


def test_methods_streams_and_objects_are_wrapped_as_functions_are(run):
    task = run(of_every_kind)["t0"]
    assert task.error is None, task.error
    assert [(call.tool, call.args, call.result) for call in task.calls] == [
        ("get", {"order_id": "A-17"}, {"id": "A-17"}),
        ("shop.find", {"words": ["red"], "limit": 1, "size": 2}, ["red", 1, {"size": 2}]),
        ("Shop", {"order_id": "B"}, "B"),
        ("numbers", {"count": 2}, [0, 1]),
        ("letters", {"count": 2}, ["a", "b"]),
        ("later", {"number": 2}, 6),
        ("find", {"words": ["blue"]}, ["blue", 3, {}]),
    ]


def test_a_stream_takes_what_is_sent_to_it_and_returns_its_value(run):
    @ew.tool
    def echo(count):
        heard = []
        for each in range(count):
            heard += [(yield each)]
        return heard

    def agent(task):
        stream, parts, sent = echo(2), [], None
        try:
            while True:
                parts.append(stream.send(sent))
                sent = f"after {parts[-1]}"
        except StopIteration as end:
            return {"parts": parts, "value": end.value}

    task = run(agent)["t0"]
    assert task.output == {"parts": [0, 1], "value": ["after 0", "after 1"]}
    assert task.calls[0].result == [0, 1]


def test_fixtures_answer_for_a_stream_part_by_part(run):
    async def agent(task):
        return [list(numbers(9)), [each async for each in letters(9)]]

    fixtures = {
        "toolResponses": [
            {"tool": "numbers", "response": [1]},
            {"tool": "letters", "response": "z"},
        ]
    }
    assert run(agent, fixtures=fixtures)["t0"].output == [[1], ["z"]]


def test_what_is_no_function_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match="right above its def"):
        ew.tool(3)


def test_a_tool_that_raises_is_recorded_with_its_error_and_raises(run):
    @ew.tool
    def broken(part):
        raise KeyError("no")

    def agent(task):
        with pytest.raises(KeyError):
            broken("a")
        with pytest.raises(TypeError):
            broken()
        return "done"

    calls = run(agent)["t0"].calls
    assert [(call.tool, call.args, call.is_ok) for call in calls] == [
        ("broken", {"part": "a"}, False),
        ("broken", {}, False),
    ]


def test_a_call_that_is_recorded_within_itself_counts_once(run):
    @ew.tool(name="search")
    def search(q):
        return task_at_work[0].call_tool("search", {"q": q})  # of a live tool, or of none

    task_at_work = []

    def agent(task):
        task_at_work[:] = [task]

        @ew.tool
        def find(q):
            task.record_call("find", {"q": q}, result="found")
            return "found"

        find("a")
        find("a")
        with task.record_call("look", {"q": 1}) as call:
            call.result = task.tools.wrap(lambda q: q, name="look")(1)
        return "done"

    calls = run(agent)["t0"].calls
    assert [(call.tool, call.result) for call in calls] == [("find", "found")] * 2 + [("look", 1)]


def test_calls_are_listed_as_they_began_and_one_that_hangs_is_not_missed(run):
    async def agent(task):
        slow, quick = asyncio.Event(), task.tools.wrap(lambda: "now", name="quick")

        async def waiting():
            await slow.wait()

        first = asyncio.ensure_future(task.tools.wrap(waiting, name="slow")())
        await asyncio.sleep(0)
        quick()
        slow.set()
        await first
        hanging = asyncio.ensure_future(task.tools.wrap(asyncio.Event().wait, name="never")())
        await asyncio.wait((hanging,), timeout=0)

    calls = run(agent, ew.calls_in_order(["slow", "quick", "never"]))["t0"]
    assert calls.passed, calls.checks


def test_nothing_is_done_once_the_task_has_ended(run):
    done, leftover = [], threading.Event()

    @ew.tool
    def refund():
        done.append("refunded")

    def agent(task):
        def later():
            leftover.wait(60)
            with pytest.raises(RuntimeError, match="has ended"):
                refund()
            done.append("refused")

        threads.append(threading.Thread(target=later))
        threads[0].start()
        return "I refunded nothing."

    threads = []
    assert run(agent)["t0"].calls == []
    leftover.set()
    threads[0].join(60)
    assert done == ["refused"]


class RunContextWrapper:
    """As libraries hand it to tools, beside the arguments."""

    key = "sk-secret"


class Hostile:
    def __str__(self):
        raise ValueError

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_arguments_and_results_of_any_kind_are_recorded_and_break_nothing(run):
    cycle = []
    cycle.append(cycle)

    @ew.tool
    def take(context, value):
        return value

    values = [Hostile(), cycle, {1, 2}, b"\x00", float("nan"), "\ud800", 10**5000, {1: {2: 3}}]

    def agent(task):
        for each in values:
            take(RunContextWrapper(), each)
        return "done"

    task = run(agent)["t0"]
    assert task.error is None, task.error
    assert [set(call.args) for call in task.calls] == [{"value"}] * len(values)
    assert task.calls[2].args == {"value": [1, 2]}
    assert task.calls[7].result == {"1": {"2": 3}}
    assert task.calls[0].args == {"value": "(Hostile)"}
