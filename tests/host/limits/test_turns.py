"""Turns on the event loop: few in a round, tenants in turn, and new work before old."""

import asyncio

from evalwright.host.access.limits import Arrivals, FairSchedule


async def work(
    schedule: FairSchedule, tenant: str, name: str, pieces: int, done: list[str]
) -> None:
    share = schedule.new_share(tenant)
    for _ in range(pieces):
        await schedule.wait(share)
        done.append(name)


def order(*workers: tuple[str, str, int]) -> list[str]:
    """The order in which workers, each of a tenant and with some pieces of work, have turns."""

    async def main() -> list[str]:
        done: list[str] = []
        schedule = FairSchedule(1)
        await asyncio.gather(*(work(schedule, *worker, done) for worker in workers))
        return done

    return asyncio.run(main())


def test_a_tenant_with_many_runs_gets_no_more_than_one_with_a_single_run() -> None:
    found = order(*[("acme", f"a{n}", 4) for n in range(4)], ("other", "b", 4))
    assert [name == "b" for name in found[:8]] == [False, True] * 4


def test_the_runs_of_a_tenant_get_the_same() -> None:
    found = order(*[("acme", f"a{n}", 5) for n in range(3)])
    for n in range(0, 15, 3):
        assert set(found[n : n + 3]) == {"a0", "a1", "a2"}


def test_a_new_run_is_next_and_then_one_of_many() -> None:
    async def main() -> list[str]:
        done: list[str] = []
        schedule = FairSchedule(1)
        old = [asyncio.create_task(work(schedule, "acme", "old", 50, done)) for _ in range(8)]
        for _ in range(200):
            await asyncio.sleep(0)
        assert 0 < len(done) < 400
        done.clear()
        new = asyncio.create_task(work(schedule, "acme", "new", 3, done))
        await asyncio.gather(new, *old)
        return done

    places = [place for place, name in enumerate(asyncio.run(main())) if name == "new"]
    assert places[0] <= 2
    assert places[-1] <= 3 * 10


def test_what_the_loop_has_to_do_besides_is_done_between_rounds() -> None:
    async def main() -> int:
        done: list[str] = []
        schedule = FairSchedule(2)
        workers = [asyncio.create_task(work(schedule, "acme", "a", 20, done)) for _ in range(10)]
        await asyncio.sleep(0)
        most = 0
        while not all(worker.done() for worker in workers):
            before = len(done)
            await asyncio.sleep(0)
            most = max(most, len(done) - before)
        assert len(done) == 200
        return most

    assert asyncio.run(main()) <= 4


def test_who_leaves_takes_no_turn() -> None:
    async def main() -> list[str]:
        done: list[str] = []
        schedule = FairSchedule(1)
        gone = schedule.new_share("acme")
        leaving = [asyncio.create_task(schedule.wait(gone)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        stays = work(schedule, "acme", "stays", 2, done)
        await asyncio.gather(stays, *leaving, return_exceptions=True)
        assert gone.taken == 0
        return done

    assert asyncio.run(main()) == ["stays", "stays"]


def test_who_was_idle_makes_up_for_nothing() -> None:
    async def main() -> list[str]:
        done: list[str] = []
        schedule = FairSchedule(1)
        idle = schedule.new_share("acme")
        await schedule.wait(idle)
        await work(schedule, "acme", "busy", 100, done)
        done.clear()

        async def come_back() -> None:
            for _ in range(20):
                await schedule.wait(idle)
                done.append("idle")

        await asyncio.gather(come_back(), work(schedule, "acme", "busy", 20, done))
        return done

    found = asyncio.run(main())
    assert abs(found[:20].count("idle") - 10) <= 2


def test_requests_begin_at_once_unless_very_many_come_at_the_same_moment() -> None:
    async def main() -> list[list[str]]:
        arrivals, begun = Arrivals(4), list[str]()

        async def request(tenant: str) -> None:
            await arrivals.enter(tenant)
            begun.append(tenant)

        requests = [asyncio.create_task(request("acme")) for _ in range(20)]
        requests.append(asyncio.create_task(request("other")))
        rounds = list[list[str]]()
        while not all(each.done() for each in requests):
            await asyncio.sleep(0)
            rounds.append(begun.copy())
        return rounds

    rounds = asyncio.run(main())
    assert rounds[0] == ["acme"] * 4
    assert len(rounds[-1]) == 21
    assert "other" in rounds[3]
