"""Makes pictures of the main pages, as a browser shows them: pages-*.png.

.venv/bin/python docs/images/make_pages.py
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from evalwright.agents.bundled import bundled
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog

HERE = Path(__file__).parent
EVALWRIGHT = str(Path(sys.executable).with_name("evalwright"))
SIZE = {"width": 1180, "height": 760}
HASTY = """
import runpy
from pathlib import Path

_careful = runpy.run_path({agent!r})["answer"]


async def answer(task):
    if task.id in ("refund-window", "order-unknown"):
        return "Please write to the support desk."
    return await _careful(task)
"""
SLOW = """
import asyncio
import random


async def answer(question, task):
    chance = random.Random(f"{question}!")
    await asyncio.sleep(0.1 + chance.random())
    task.report_usage(input_tokens=900, output_tokens=120, cost_usd=0.0021)
    return "4" if chance.random() > 0.08 else "5"
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_runs(folder)
        viewer = subprocess.Popen(
            [EVALWRIGHT, "view", "--db", "evals.db", "--no-browser"],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert viewer.stdout is not None
            take_pictures(viewer.stdout.readline().strip(), folder)
        finally:
            viewer.terminate()
            viewer.wait()


def write_runs(folder: Path) -> None:
    demo = bundled("demo")
    (folder / "hasty.py").write_text(HASTY.format(agent=str(demo / "agent.py")))
    (folder / "slow.py").write_text(SLOW)
    rows = "".join(f"What is {n} and {4 - n}?,4\n" for n in range(-40, 40))
    (folder / "sums.csv").write_text(f"question,answer\n{rows}")
    suite, agent = str(demo / "suite.yaml"), f"{demo / 'agent.py'}:answer"
    name = "acme.support-desk"
    hasty = "hasty.py:answer"
    week = [("main", agent), ("pull-3", hasty), *[("main", agent)] * 3, ("main", hasty)]
    for days, (tag, ref) in enumerate([*week, ("main", agent), ("pull-1", hasty)]):
        run(folder, "run", suite, "--agent", ref, "--agent-id", name, "--tag", tag)
        move(folder, 60 + 90_000 * (8 - days))
    run(folder, "demo")
    move(folder, 40_000)
    run(folder, "run", suite, "--agent", agent, "--agent-id", name, "--tag", "pull-2")
    move(folder, 20)


def move(folder: Path, ago_s: int) -> None:
    """Put what ran into the log that is shown, as if it were some time ago."""
    with (
        closing(SqliteLog(folder / "new.db")) as new,
        closing(SqliteLog(folder / "evals.db")) as log,
    ):
        for run_id in [each.run_id for each in reversed(new.find_runs())]:
            events = [
                NewEvent(each.type, each.task_id, each.at_us - ago_s * 1_000_000, each.body)
                for each in new.read(run_id)
            ]
            log.append(run_id, events)
            log.flush(run_id).result()
    for each in folder.glob("new.db*"):
        each.unlink()


def run(folder: Path, *arguments: str) -> None:
    """Run a command; some of the runs are not meant to pass."""
    line = [EVALWRIGHT, *arguments, "--db", "new.db"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr


def take_pictures(link: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(link)
        for name, show in PICTURES.items():
            page.goto(re.sub(r"\?.*", "", link))
            show(page, folder)
            page.wait_for_timeout(500)
            page.screenshot(path=HERE / f"pages-{name}.png")
        browser.close()


def show_runs(_page: Page, _folder: Path) -> None:
    """The first page is the list of runs."""


def show_live(page: Page, folder: Path) -> None:
    line = "run sums.csv --agent slow.py:answer --input question --expected answer --check contains"
    more = "--concurrency 6 --max-cost 1 --quiet --db evals.db"
    subprocess.Popen(
        [EVALWRIGHT, *line.split(), *more.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    page.wait_for_timeout(3000)
    page.reload()
    page.locator("tr", has_text="Running").get_by_role("link").first.click()
    page.get_by_text(re.compile(r"^(3|4)\d of 80 tasks are scored")).wait_for()


def show_scorecard(page: Page, _folder: Path) -> None:
    page.locator("tr", has_text="pull-1").get_by_role("link").first.click()


def show_trace(page: Page, folder: Path) -> None:
    show_scorecard(page, folder)
    page.get_by_role("link", name="refund-window-for-members").first.click()
    page.locator("#steps-title").evaluate("each => each.scrollIntoView({ block: 'center' })")


def show_compare(page: Page, _folder: Path) -> None:
    for tag in ("pull-1", "main"):
        page.locator("tr", has_text=tag).first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    page.wait_for_load_state("networkidle")


def show_trends(page: Page, _folder: Path) -> None:
    page.get_by_role("link", name="Trends").click()
    page.goto(f"{page.url}?suite=local.evalwright.evals.support-desk&agent=acme.support-desk")
    page.locator(".u-over").first.wait_for()


def show_review(page: Page, _folder: Path) -> None:
    page.get_by_role("link", name="Review").click()
    page.get_by_role("button", name="Review the next task").click()
    page.get_by_role("heading", level=1).wait_for()


PICTURES: dict[str, Callable[[Page, Path], None]] = {
    "runs": show_runs,
    "trends": show_trends,
    "review": show_review,
    "live": show_live,
    "scorecard": show_scorecard,
    "trace": show_trace,
    "compare": show_compare,
}


if __name__ == "__main__":
    main()
