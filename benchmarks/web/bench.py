"""The pages beside Inspect View and promptfoo view, on 10,000 samples, and a run of 100,000 tasks.

python benchmarks/web/bench.py [--samples 10000] [--tasks 100000] [--repeat 5] [--skip-peers]
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

from environments import environment, version  # noqa: E402 - found by the line above

MB = 1_000_000
BROWSERS = ("chromium", "chromium-browser", "chromium-headless-shell")
EVALWRIGHT = str(Path(sys.executable).with_name("evalwright"))
PEER_LOG = HERE.parent / "peers" / "inspect_ai_log.py"
PEER_PORT = 7591
PROMPTFOO = "promptfoo@0.121.20"
PROMPTFOO_PORT = 7592
PROMPTFOO_FOLDER = HERE.parent / ".envs" / "promptfoo"
PROVIDER = """module.exports = class {
  id() { return "recorded"; }
  async callApi(prompt, context) { return { output: context.vars.answer }; }
};
"""
SUITE = 'evalwright: 1\nname: orders\ndefaults:\n  checks:\n    - contains: "Order A-"\n'
READ_SAMPLES = """
import json, sys
from inspect_ai.log import read_eval_log
for each in read_eval_log(sys.argv[1]).samples:
    told = {"id": each.id, "input": each.input, "target": each.target}
    print(json.dumps(told | {"answer": each.output.completion}))
"""
FIRST_BYTE = """performance.getEntriesByType('navigation')[0].responseStart"""
SENT = """['resource', 'navigation'].flatMap((kind) => performance.getEntriesByType(kind))
  .reduce((sum, each) => sum + each.transferSize, 0)"""
ROWS = """(sign) => document.body?.innerText.includes(sign) && performance.now()"""


class Seen(NamedTuple):
    """What a visitor notices of a page, and what its tab takes."""

    first_byte_ms: float  # of the page; the rows of the others come with later answers
    first_row_s: float
    heap_mb: float
    tab_mb: float
    sent_kb: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--skip-peers", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evalwright-bench-") as name:
        folder = Path(name)
        if not options.skip_peers:
            beside_peers(folder, options.samples, options.repeat)
        large_run(folder, options.tasks, options.repeat)


def beside_peers(folder: Path, samples: int, repeat: int) -> None:
    logs = folder / "logs"
    logs.mkdir()
    python = str(environment("inspect-ai") / "python")
    subprocess.run([python, str(PEER_LOG), str(logs / "orders.eval"), str(samples)], check=True)
    (folder / "suite.yaml").write_text(SUITE)
    database, suite = folder / "orders.db", str(folder / "suite.yaml")
    command = [EVALWRIGHT, "score", str(logs / "orders.eval"), "--suite", suite]
    subprocess.run([*command, "--db", str(database), "--quiet"], check=False, capture_output=True)
    with (
        our_view(database) as (url, link, _),
        inspect_view(logs) as inspect,
        promptfoo_view(folder / "promptfoo", logs / "orders.eval") as promptfoo,
    ):
        run = run_of(url, link)
        viewers = {
            "evalwright view": (f"{url}{run.path}", "task-"),
            "Inspect View": (f"{inspect}/#/tasks/orders.eval/samples", "task-0"),
            "promptfoo view": (promptfoo, "Order A-"),
        }
        seen: dict[str, list[Seen]] = {name: [] for name in viewers}
        for _ in range(repeat):  # in turns: a slow moment of the machine is a slow one for all
            for name, (address, sign) in viewers.items():
                cookie = run.cookie if address.startswith(url) else None
                seen[name].append(visit(address, sign, cookie))
    versions = f"inspect-ai {version('inspect-ai')}, {PROMPTFOO}"
    print(f"{samples:,} samples; {versions}; median and best of {repeat}")
    print(f"{'':17}{'first byte':>19}{'first row':>19}{'JS heap':>20}{'tab':>20}{'sent':>11}")
    for name, of in seen.items():
        print(f"{name:17}{told(of, 'first_byte_ms', 'ms')}{told(of, 'first_row_s', 's')}", end="")
        print(f"{told(of, 'heap_mb', 'MB')}{told(of, 'tab_mb', 'MB')}", end="")
        print(f"{statistics.median(each.sent_kb for each in of):8.0f} KB")


def told(seen: list[Seen], name: str, unit: str) -> str:
    values = [getattr(each, name) for each in seen]
    return f"{statistics.median(values):9.2f}{min(values):7.2f} {unit}"


# The viewers.


@contextmanager
def our_view(database: Path) -> Iterator[tuple[str, str, int]]:
    """`evalwright view`: its address, the link that opens it, and its process."""
    command = [EVALWRIGHT, "view", "--db", str(database), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        link = next(line for line in process.stdout if line.startswith(b"http")).decode().strip()
        try:
            yield link.partition("/?")[0], link, process.pid
        finally:
            process.terminate()


@contextmanager
def inspect_view(logs: Path) -> Iterator[str]:
    """`inspect view`: its address."""
    command = str(environment("inspect-ai") / "inspect")
    given = ["view", "start", "--log-dir", str(logs), "--port", str(PEER_PORT)]
    with subprocess.Popen([command, *given], stdout=subprocess.DEVNULL) as process:
        try:
            address = f"http://127.0.0.1:{PEER_PORT}"
            wait_for(address)
            yield address
        finally:
            process.terminate()


@contextmanager
def promptfoo_view(folder: Path, log: Path) -> Iterator[str]:
    """`promptfoo view`, with an evaluation that answers what the log has: its address."""
    if not (PROMPTFOO_FOLDER / ".ready").exists():
        PROMPTFOO_FOLDER.mkdir(parents=True, exist_ok=True)
        (PROMPTFOO_FOLDER / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", PROMPTFOO]
        subprocess.run(command, cwd=PROMPTFOO_FOLDER, check=True, stdout=subprocess.DEVNULL)
        (PROMPTFOO_FOLDER / ".ready").touch()
    folder.mkdir()
    (folder / "provider.js").write_text(PROVIDER)
    with (folder / "tests.jsonl").open("w") as tests:
        for sample in samples_of(log):
            wanted = {"type": "contains", "value": sample["target"]}
            given = {"question": sample["input"], "answer": sample["answer"]}
            test = {"description": sample["id"], "vars": given, "assert": [wanted]}
            tests.write(json.dumps(test) + "\n")
    config = {
        "prompts": ["{{question}}"],
        "providers": ["file://provider.js"],
        "tests": "file://tests.jsonl",
    }
    (folder / "config.json").write_text(json.dumps(config))
    quiet = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")
    env = os.environ | {f"PROMPTFOO_DISABLE_{name}": "1" for name in quiet}
    env["PROMPTFOO_CONFIG_DIR"] = str(folder / "home")
    program = str(PROMPTFOO_FOLDER / "node_modules" / ".bin" / "promptfoo")
    command = [program, "eval", "-c", "config.json", "--no-cache", "--no-table", "-j", "8"]
    subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True)
    command = [program, "view", "-n", "-p", str(PROMPTFOO_PORT)]
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            address = f"http://127.0.0.1:{PROMPTFOO_PORT}"
            wait_for(address)
            answer = urllib.request.urlopen(f"{address}/api/results").read()
            yield f"{address}/eval/{json.loads(answer)['data'][0]['evalId']}"
        finally:
            process.terminate()


def samples_of(log: Path) -> Iterator[dict[str, str]]:
    """What was asked, expected and answered, from a log of inspect-ai."""
    python = str(environment("inspect-ai") / "python")
    found = subprocess.run(
        [python, "-c", READ_SAMPLES, str(log)], check=True, capture_output=True, text=True
    )
    return map(json.loads, found.stdout.splitlines())


def wait_for(address: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(address).read()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(address)


class OpenedRun(NamedTuple):
    path: str
    cookie: tuple[str, str]


def run_of(url: str, link: str) -> OpenedRun:
    """The only run of a log, and the cookie that the link was exchanged for."""
    opener = urllib.request.build_opener(NoRedirect)
    cookie = opener.open(link).headers["Set-Cookie"].partition(";")[0]
    asked = urllib.request.Request(f"{url}/runs?wait=1", headers={"Cookie": cookie})
    page = urllib.request.urlopen(asked).read().decode()
    found = re.search(r'href="(/runs/[^"/?]+)', page)
    assert found, "the list of runs shows none"
    name, _, value = cookie.partition("=")
    return OpenedRun(found[1], (name, value.strip('"')))


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keeps the answer that redirects, for its cookie."""

    def http_error_303(self, _request: object, answer: HTTPResponse, *_: object) -> HTTPResponse:
        return answer


# One visit, in a browser of its own.


def visit(address: str, sign: str, cookie: tuple[str, str] | None = None) -> Seen:
    """Open an address, and wait until a text stands on the page."""
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        if cookie:
            host = "/".join(address.split("/")[:3])
            context.add_cookies([{"name": cookie[0], "value": cookie[1], "url": host}])
        page = context.new_page()
        page.goto(address, wait_until="commit")
        first_row = page.wait_for_function(ROWS, arg=sign, polling="raf").json_value() / 1000
        page.wait_for_timeout(1500)
        first_byte = page.evaluate(FIRST_BYTE)
        seen = Seen(first_byte, first_row, heap_mb(page), tab_mb(browser), sent_kb(page))
        browser.close()
    return seen


def heap_mb(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize") / MB


def tab_mb(browser: Browser) -> float:
    """The resident memory of the largest process that draws pages."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    renderers = [each["id"] for each in processes if each["type"] == "renderer"]
    return max(resident_kb(each) for each in renderers) / 1000


def resident_kb(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) if found else 0


def sent_kb(page: Page) -> float:
    return page.evaluate(SENT) / 1000


# A run of 100,000 tasks.

AGENT = "def answer(task):\n    return 'no' if int(task.input) % 40 == 0 else 'yes'\n"
LARGE = (
    "evalwright: 1\nname: large\nagent: agent.py:answer\ndefaults:\n  checks: [{equals: 'yes'}]\n"
)


def large_run(folder: Path, tasks: int, repeat: int) -> None:
    (folder / "agent.py").write_text(AGENT)
    (folder / "rows.csv").write_text("id,input\n" + "".join(f"t-{n},{n}\n" for n in range(tasks)))
    (folder / "large.yaml").write_text(f"{LARGE}data: rows.csv\n")
    database = folder / "large.db"
    command = [EVALWRIGHT, "run", "large.yaml", "--db", str(database), "--quiet"]
    subprocess.run(command, check=False, cwd=folder, capture_output=True)
    print(f"\na run of {tasks:,} tasks: first byte, CPU of the server, size compressed")
    with our_view(database) as (url, link, process):
        run = run_of(url, link)
        for name, path, is_part, times in (
            ("first visit, tasks follow", run.path, False, 1),
            ("the tasks, the first time", run.path, True, 1),
            ("every other visit", run.path, False, repeat),
            ("a filter, the first time", f"{run.path}?show=passed", False, 1),
            ("a search that finds few", f"{run.path}?q=t-99", False, 1),
            ("a search that finds none", f"{run.path}?q=nowhere", False, 1),
            ("a search that finds most", f"{run.path}?q=yes", False, 1),
            ("its suite", "/suites/large?wait=1", False, repeat),
        ):
            before = cpu_s(process)
            seen = [answered(f"{url}{path}", run.cookie, part=is_part) for _ in range(times)]
            time.sleep(0.2)
            cpu_ms = 1000 * (cpu_s(process) - before) / times
            first_ms = 1000 * statistics.median(each[0] for each in seen)
            size = f"{seen[0][1] / 1000:5.1f} KB"
            print(f"{name:28}{first_ms:8.1f} ms  {cpu_ms:6.0f} ms  {size}")


def cpu_s(process: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answered(address: str, cookie: tuple[str, str], *, part: bool = False) -> tuple[float, int]:
    """How long the first byte took, and how many bytes there were, compressed as for browsers."""
    headers = {"Cookie": "=".join(cookie), "Accept-Encoding": "gzip"}
    headers |= {"HX-Request": "true"} if part else {}
    request = urllib.request.Request(address, headers=headers)
    began = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        first = answer.read(1)
        took = time.perf_counter() - began
        return took, len(first + answer.read())


if __name__ == "__main__":
    main()
