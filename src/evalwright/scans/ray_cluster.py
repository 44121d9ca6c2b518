"""Shards on a Ray cluster: a task for each, tried again when the machine that has it is lost."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

import ray

from evalwright.contracts.errors import CannotEvaluate, EvalwrightError

_Shard = TypeVar("_Shard")
_Part = TypeVar("_Part")

_AHEAD = 2  # shards for each core of the cluster
_TRIES = 3


class RayCluster:
    """The cluster that RAY_ADDRESS names or that runs here, else one of this machine alone.

    `jobs` is the most that are worked on at a time; by default two for each core of the cluster.
    """

    shard_bytes = 64 << 20

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs

    def map_shards(
        self, fn: Callable[[_Shard], _Part], shards: Iterable[_Shard]
    ) -> Generator[_Part, None, None]:
        is_ours = not ray.is_initialized()
        try:
            if is_ours:
                ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
            most = self._jobs or max(1, int(ray.cluster_resources().get("CPU", 1))) * _AHEAD
            work: Any = ray.remote(max_retries=_TRIES)(_apply)
            kept = ray.put(fn)  # once, not with every shard
            waiting: deque[Any] = deque()
            try:
                for shard in shards:
                    waiting.append(work.remote(kept, shard))
                    if len(waiting) >= most:
                        yield ray.get(waiting.popleft())
                while waiting:
                    yield ray.get(waiting.popleft())
            finally:
                for each in waiting:
                    ray.cancel(each, force=True)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, EvalwrightError):
                raise error.cause from None
            raise CannotEvaluate(f"a task on the Ray cluster failed: {error.cause!r}") from None
        except (ray.exceptions.RayError, ConnectionError) as error:
            first_line = str(error).strip().partition("\n")[0][:300]
            raise CannotEvaluate(f"the Ray cluster failed: {first_line}") from None
        finally:
            if is_ours:
                ray.shutdown()


def _apply(fn: Callable[[_Shard], _Part], shard: _Shard) -> _Part:
    return fn(shard)
