"""Which invocation code belongs to: that of its thread or task, also in threads that it starts.

Python hands its context on to tasks of an event loop, but neither to new threads nor to pools; and
agents ask several tools at once in both. So these are given the context of whoever starts them,
where that is an agent at work. Nothing changes for other code.
"""

import functools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pools
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalwright.agents.account import SeenCall
    from evalwright.agents.protocol import Invocation

current: ContextVar["Invocation | None"] = ContextVar("invocation", default=None)
# The call of a tool that the code runs within: what is recorded of the same call there is this one.
in_progress: ContextVar["SeenCall | None"] = ContextVar("in_progress", default=None)
# Whether the code is of a check of the user, and of no agent.
of_checks: ContextVar[bool] = ContextVar("of_checks", default=False)
at_work: set["Invocation"] = set()  # of agents in this process


@functools.cache
def follow_into_threads() -> None:
    """Have threads and pools take over the context of an agent that starts or uses them."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit
    work_of_pools = getattr(pools, "_worker", None)

    def start_there(thread: threading.Thread) -> None:
        # Threads of a pool work for whoever asks next: `submit` hands each its own context.
        if current.get() is not None and getattr(thread, "_target", None) is not work_of_pools:
            setattr(thread, "run", functools.partial(copy_context().run, thread.run))  # noqa: B010
        start(thread)

    def submit_there(
        pool: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if current.get() is None:
            return submit(pool, function, *args, **kwargs)
        return submit(pool, copy_context().run, function, *args, **kwargs)

    setattr(threading.Thread, "start", functools.wraps(start)(start_there))  # noqa: B010
    setattr(ThreadPoolExecutor, "submit", submit_there)  # noqa: B010
