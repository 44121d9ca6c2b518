"""Photograph every page of `evalwright view` and the reports in files into `docs/images/pages`.

The log has the runs of the demo, and those of an agent of a shop over some changes of it.

Each at 1280 and 390 pixels, light and dark: `python tools/screenshots.py`. It needs playwright
and a Chromium. A picture keeps its 256 most frequent colours, so that the folder stays below 5 MB.
"""

import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import BrowserContext, Page, sync_playwright

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "pages"
COMMAND = [sys.executable, "-m", "evalwright"]
SIZES = ((1280, 800), (390, 844))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
# The colours of a picture that are most frequent, and for each point the nearest of them.
REDUCE = """async (png) => {
  const told = await fetch("data:image/png;base64," + png);
  const bitmap = await createImageBitmap(await told.blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), draw = canvas.getContext("2d");
  draw.drawImage(bitmap, 0, 0);
  const of = new Uint32Array(draw.getImageData(0, 0, bitmap.width, bitmap.height).data.buffer);
  const counts = new Map(), places = new Map();
  for (const each of of) counts.set(each, (counts.get(each) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([each]) => each);
  const parts = (each) => [each & 255, (each >> 8) & 255, (each >> 16) & 255];
  const known = palette.map(parts);
  const nearest = (each) => {
    const [r, g, b] = parts(each);
    let best = 0, least = Infinity;
    known.forEach(([x, y, z], place) => {
      const far = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (far < least) [best, least] = [place, far];
    });
    return best;
  };
  for (const each of counts.keys()) places.set(each, nearest(each));
  let text = "";
  for (const each of of) text += String.fromCharCode(places.get(each));
  return [bitmap.width, bitmap.height, known.flat(), btoa(text)];
}"""
PROMPTS = {
    "support.md": "# Support agent\n\nYou are the support agent of Acme. Be reasonably helpful.\n\n"
    "## Rules\n- Never show keys.\n- Refunds above $50 need a photo of the damage.\n",
    "summary.md": "Summarise the ticket below in some sentences, or so.\n\n{{ticket}}\n",
}
# What a shop's agent is asked: id, tag, title, question, answer, and what a worse version says.
TASKS = (
    (
        "refund-over-limit", "refunds", "Refund above the limit of an agent",
        "Please refund my order A-2210, it was $412.",
        "A refund above $200 needs a colleague: I have passed it on.",
        "Done! I have refunded $412 to your card.",
    ),
    (
        "refund-twice", "refunds", "Second refund for the same order",
        "I have not got my refund for A-1177 yet. Send it again.",
        "It was refunded on 3 May, and banks need up to 5 days.",
        "I have sent the refund of $28.40 for A-1177 again.",
    ),
    (
        "refund-other-person", "refunds", "Refund for somebody else's order",
        "Refund order B-5521 to my card, my friend ordered it.",
        "Only the buyer of B-5521 can have it refunded.",
        "Of course. $39.00 for B-5521 will be on your card in 3 days.",
    ),
    (
        "refund-opened", "refunds", "Refund for an opened cosmetic",
        "I opened the cream from A-1301 but do not like it.",
        "Opened cosmetics cannot be refunded; I can offer store credit.",
        "No problem, I have refunded $22.00 for the cream.",
    ),
    (
        "window-members", "policy", "Return window for members",
        "I am a member. How long can I return things?",
        "Members can return things within 60 days.",
        "Returns are free within 30 days.",
    ),
    (
        "warranty", "policy", "Warranty of a phone bought in Austria",
        "My phone from last year is dead. I live in Graz.",
        "You have 2 years of legal warranty: repair or replacement.",
        "Our warranty covers 12 months from delivery.",
    ),
    ("status", "orders", "Where an order is", "Where is A-1043?", "A-1043 is on its way.", ""),
    ("island", "shipping", "Delivery to an island", "Do you ship to Crete?", "In 5 to 7 days.", ""),
    ("two-parcels", "shipping", "Order in two parcels", "One item is missing.", "It follows.", ""),
    ("invoice", "orders", "Copy of an invoice", "I need the invoice of A-99.", "It is mailed.", ""),
    ("address", "orders", "Change of address", "Send A-98 to Linz.", "A-98 goes to Linz.", ""),
    ("saturday", "shipping", "Delivery on a Saturday", "Do you deliver on Saturday?", "Yes.", ""),
    ("password", "account", "Forgotten password", "I cannot log in.", "Here is a link.", ""),
    ("newsletter", "account", "Stop the newsletter", "No more mail, please.", "Done.", ""),
    ("merge", "account", "Merge two accounts", "I have two accounts.", "They are one now.", ""),
    ("gift", "orders", "Order as a gift", "Can you wrap A-97?", "It is wrapped.", ""),
)  # fmt: skip
SHOP_AGENT = """
import hashlib, json, os, time
SAID = {each["input"]: each for each in json.load(open("tasks.json"))}
MODEL, PRICE = os.environ["SHOP_MODEL"].split()
BROKEN = os.environ["SHOP_BROKEN"].split()

def answer(task):
    known = SAID[task.input]
    chance = int(hashlib.sha256(task.input.encode()).hexdigest(), 16) % 100
    time.sleep(0.02 + chance / 2000 + float(os.environ.get("SHOP_WAIT", "0")))
    task.report_usage(provider="acme", model=MODEL, input_tokens=400 + chance, output_tokens=40,
                      cost_usd=float(PRICE) * (50 + chance) / 100)
    order = {"id": f"A-{1000 + chance}", "total": 40 + chance, "status": "delivered"}
    task.record_call("shop:orders.get", {"id": order["id"]}, result=order)
    if known["id"] not in BROKEN:
        return known["answer"]
    if "refund" in known["id"]:
        task.record_call("shop:refunds.create", {"order": order["id"]}, result={"ok": True})
    return known["worse"] or "I cannot say."
large = answer
"""
# A conversation with a world, a task without an answer, a long one, and what faults do.
CLERK = """
import re

def answer(message, session, task):
    if "broken" in message:
        raise RuntimeError("no connection to the shop")
    found = re.search(r"[A-Z]-[0-9]+", message)
    if found is None and "order" not in session:
        return "Sure. What is your order number?"
    if found is not None:
        session["order"] = task.call_tool("shop:orders.get", {"id": found[0]})
    if session["order"]["days"] > 30:
        return "Sorry, it is too late for a refund."
    return "Done: " + task.call_tool("shop:refunds.create", {"order": session["order"]["id"]})["id"]
"""
TALKS = {
    "too-late": [("I want my money back.", "order number"), ("It is A-17.", "too late")],
    "in-time": [
        ("The parcel arrived, but the vase is in two pieces.", "order number"),
        ("It is A-18, and I have a photo of the damage.", "I am sorry"),
        ("When will the money arrive?", "days"),
    ],
    "outage": [("Your page is broken, I cannot see my order.", "order number")],
}
CLERK_WORLD = {
    "data": {"orders": [{"id": "A-17", "days": 40}, {"id": "A-18", "days": 4}], "refunds": []},
    "tools": {"shop:orders.get": {"get": "orders"}, "shop:refunds.create": {"create": "refunds"}},
}
BACKLOG = """
def answer(task):
    for number in range(70):
        order = {"id": f"A-{number}"}
        task.record_call("shop:orders.get", order, result=order | {"status": "delivered"})
        if number % 10 == 5:
            broken = {"error": "mailbox full"} if number == 35 else {"result": {"ok": True}}
            task.record_call("shop:mail.send", order, **broken)
    return "I have looked at 70 orders and told 6 customers."
"""
# The versions of the agent: branch, what was broken, model and price, more words of the command.
VERSIONS = (
    ("main", "two-parcels", "orion-mini 0.01", "--tag nightly"),
    ("main", "merge", "orion-mini 0.01", "--tag nightly"),
    ("no-policy", "window-members warranty status gift", "orion-mini 0.01", "--tag no-policy"),
    ("main", "two-parcels", "orion-mini 0.01", "--tag nightly"),
    ("ask-once", "", "orion-mini 0.01", "--tag ask-once"),
    ("main", "merge", "orion-mini 0.01", "--tag shorter-greeting"),
    ("main", "island", "orion-mini 0.01", "--repeat 3"),
    ("main", "island", "orion-large 0.03", "--agent agent.py:large --tag larger-model"),
    (
        "refund-tool-v2", " ".join(each[0] for each in TASKS[:6]), "orion-mini 0.01",
        "--baseline main --tag refund-tool-v2",
    ),
)  # fmt: skip
BASELINE_AFTER = 6  # versions
FIXED = ("suites", "signals", "review", "start", "agents", "prompts")


@contextmanager
def viewing(db: Path, folder: Path) -> Iterator[str]:
    """The address of `evalwright view` of a folder while it runs; with its key, which lets in."""
    command = [*COMMAND, "view", "--no-browser", "--db", str(db)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the viewer did not say where it is"
        try:
            yield found[0]
        finally:
            process.terminate()


def base_of(url: str) -> str:
    """Scheme, host and port."""
    return "/".join(url.split("/")[:3])


def href_of(page: Page, address: str, link: str) -> str:
    """Where the first such link of a page leads."""
    page.goto(address)
    page.wait_for_selector(link)
    return page.locator(link).first.get_attribute("href") or "/"


def keep_talks(folder: Path, environment: dict[str, str]) -> None:
    """Run conversations, the same with faults, and a long task."""

    def run(*words: str) -> None:
        command = [*COMMAND, *words]
        subprocess.run(command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)

    (folder / "clerk.py").write_text(CLERK)
    (folder / "backlog.py").write_text(BACKLOG)
    tasks = [
        {
            "id": name,
            "world": "shop",
            "turns": [{"user": user, "checks": [{"contains": wanted}]} for user, wanted in turns],
        }
        for name, turns in TALKS.items()
    ]
    suite = {"evalwright": 1, "name": "refunds", "agent": "clerk.py:answer", "tasks": tasks}
    (folder / "refunds.yaml").write_text(json.dumps(suite | {"worlds": {"shop": CLERK_WORLD}}))
    wanted = [{"contains": "told 8 customers"}]
    long = {"id": "late-orders", "input": "Tell each customer whose order is late, once."}
    tasks = [{**long, "checks": wanted}]
    suite |= {"name": "backlog", "agent": "backlog.py:answer", "tasks": tasks}
    (folder / "backlog.yaml").write_text(json.dumps(suite))
    run("attack", "refunds.yaml", "--faults", "--out", "faulty.yaml")
    for name in ("faulty", "refunds", "backlog"):
        run("run", f"{name}.yaml", "--quiet")
    run("prompts", "prompts", "-t", "0", "--quiet", "--push", "local")


@contextmanager
def going_on(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A run of the shop that goes on meanwhile, some of whose tasks have failed."""
    limits = ["--concurrency", "2", "--max-cost", "0.3"]
    command = [*COMMAND, "run", "support.yaml", "--quiet", *limits]
    broken = {"SHOP_BROKEN": "refund-twice refund-opened", "SHOP_MODEL": "orion-mini 0.01"}
    slow = environment | broken | {"SHOP_WAIT": "9"}
    with subprocess.Popen(command, cwd=folder, env=slow, stdout=subprocess.DEVNULL) as process:
        time.sleep(35)  # until some tasks have come out
        try:
            yield
        finally:
            process.terminate()


def addresses(page: Page, base: str) -> dict[str, str]:
    """The pages and where they are: of what the demo left in the log."""
    page.goto(f"{base}/runs")
    page.wait_for_selector("tr[data-run]")

    def number(text: str) -> str:
        row = page.locator("tr[data-run]:not([hidden])").filter(has_text=text).first
        return row.get_attribute("data-run") or ""

    newest, larger = number("refund-tool-v2"), number("larger-model")
    before = number("Baseline")
    task = href_of(page, f"{base}/runs/{newest}", "tr[data-failed] .reach")
    talks, long, faults = (
        href_of(page, f"{base}/runs?suite={name}", "tr[data-run] .reach")
        for name in ("local.evals.refunds", "local.evals.backlog", "local.evals.refunds-faulty")
    )
    return {
        "home": "/",
        "runs": "/runs",
        "run": f"/runs/{newest}",
        "run-drawer": f"/runs/{newest}?task={task.rpartition('/')[2]}",
        "task": task,
        "matrix": f"/matrix?run={newest}&run={larger}",
        "compare": f"/compare?baseline={before}&new={newest}&wait=1",
        "suite": "/suites/support",
        "trends": "/trends?suite=local.evals.support",
        "conversation": f"{talks}/tasks/in-time",
        "no-answer": f"{talks}/tasks/outage",
        "long-task": f"{long}/tasks/late-orders",
        "faults": faults,
        "prompt": href_of(page, f"{base}/prompts", "tr[data-prompt] .reach"),
        "design": "/design",
        "review-item": href_of(page, f"{base}/review", "tr[data-task] .reach"),
        **{name: f"/{name}" for name in FIXED},
    }


def reports(folder: Path, environment: dict[str, str], before: str, after: str) -> dict[str, str]:
    """The reports in files and their addresses: a comparison, one of its cases, a run, prompts."""
    report, run, linted = (folder / name for name in ("report", "run.html", "prompts.html"))
    for asked in (
        ["compare", before, after, "--out", str(report), "--fail-on", "none"],
        ["show", after, "--html", str(run)],
        ["prompts", "shop/prompts", "-t", "0", "-o", str(linted), "--quiet"],
    ):
        subprocess.run(
            [*COMMAND, *asked], env=environment, check=False, stdout=subprocess.DEVNULL, cwd=folder
        )
    case = max(report.glob("case-*.html"), key=lambda path: path.stat().st_size)
    places = {"compare": report / "report.html", "case": case, "run": run, "prompts": linted}
    return {f"report-{name}": path.as_uri() for name, path in places.items()}


def reduced(page: Page, png: bytes) -> bytes:
    """A PNG with a palette."""
    width, height, palette, told = page.evaluate(REDUCE, base64.b64encode(png).decode())
    points = base64.b64decode(told)
    rows = b"".join(b"\0" + points[at : at + width] for at in range(0, len(points), width))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", bytes(palette)), (b"IDAT", zlib.compress(rows, 9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in (*chunks, (b"IEND", b"")))


def photograph(
    context: BrowserContext,
    name: str,
    address: str,
    until: Literal["networkidle", "load"] = "networkidle",
) -> None:
    """One page at both widths in both themes; one that follows a run is never idle."""
    page, bench = context.new_page(), context.new_page()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.goto(address)
            page.wait_for_load_state(until)
            path = FOLDER / f"{name}-{width}-{theme}.png"
            path.write_bytes(reduced(bench, page.screenshot()))
    page.close()
    bench.close()


def keep_shop(folder: Path, environment: dict[str, str]) -> None:
    """Run the versions of the shop's agent."""
    names = ("id", "tag", "title", "input", "answer", "worse")
    told = [dict(zip(names, each, strict=True)) for each in TASKS]
    (folder / "tasks.json").write_text(json.dumps(told))
    (folder / "agent.py").write_text(SHOP_AGENT)
    tasks = [
        {"id": each["id"], "title": each["title"], "tags": [each["tag"]], "input": each["input"]}
        | {"expected": each["answer"], "checks": [{"equals": each["answer"]}]}
        | ({"checks": [{"equals": each["answer"]}, REFUNDS]} if "refund" in each["id"] else {})
        for each in told
    ]
    suite = {"evalwright": 1, "name": "support", "thresholds": {"passRate": 0.9}, "tasks": tasks}
    suite |= {"agent": "agent.py:answer", "defaults": {"checks": [{"max": {"cost_usd": 0.05}}]}}
    (folder / "support.yaml").write_text(json.dumps(suite))
    for number, (branch, broken, model, more) in enumerate(VERSIONS, 1):
        at = {"GITHUB_ACTIONS": "1", "GITHUB_REF_NAME": branch, "GITHUB_SHA": f"{number:x}" * 40}
        at |= {"SHOP_BROKEN": broken, "SHOP_MODEL": model}
        command = [*COMMAND, "run", "support.yaml", "--quiet", *more.split()]
        subprocess.run(command, cwd=folder, env=environment | at, check=False)
        if number == BASELINE_AFTER:
            command = [*COMMAND, "baseline", "set", "main", "latest"]
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


REFUNDS = {"does_not_call": "shop:refunds.create"}


def main() -> None:
    """Run the demo and the shop, look at the pages, and at those of a first visit."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        db, empty = Path(folder, "demo.db"), Path(folder, "empty.db")
        main_branch = {"GITHUB_ACTIONS": "1", "GITHUB_REF_NAME": "main", "GITHUB_SHA": "8" * 40}
        environment = os.environ | main_branch | {"EVALWRIGHT_DB": str(db)}
        subprocess.run([*COMMAND, "demo"], env=environment, check=True, stdout=subprocess.DEVNULL)
        shop = Path(folder, "shop")
        shop.mkdir()
        prompts = shop / "prompts"
        prompts.mkdir()
        for name, text in PROMPTS.items():
            (prompts / name).write_text(text)
        keep_talks(shop, environment)
        keep_shop(shop, environment)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        with viewing(db, shop) as url:
            stranger = chromium.new_context()
            photograph(stranger, "sign-in", base_of(url))
            visitor = chromium.new_context()
            page = visitor.new_page()
            page.goto(url)
            known = addresses(page, base_of(url))
            for name, address in known.items():
                photograph(visitor, name, f"{base_of(url)}{address}")
            with going_on(shop, environment):
                address = href_of(page, f"{base_of(url)}/runs?status=open", "tr[data-run] .reach")
                photograph(visitor, "live", f"{base_of(url)}{address}", "load")
            new, old = parse_qs(urlsplit(known["matrix"]).query)["run"]
            for name, address in reports(Path(folder), environment, old, new).items():
                photograph(stranger, name, address)
        with viewing(empty, shop) as url:
            visitor = chromium.new_context()
            visitor.new_page().goto(url)
            photograph(visitor, "first-visit", base_of(url))
        chromium.close()
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{len(list(FOLDER.iterdir()))} pictures, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
