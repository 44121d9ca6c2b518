"""Photograph every page of `evalwright view` and the reports in files into `docs/images/pages`.

Each at 1280 and 390 pixels, light and dark: `python tools/screenshots.py`. It needs playwright
and a Chromium. A picture keeps its 256 most frequent colours, so that the folder stays below 3 MB.
"""

import base64
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
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
FIXED = ("suites", "signals", "review", "start", "agents", "prompts", "trends")


@contextmanager
def viewing(db: Path) -> Iterator[str]:
    """The address of `evalwright view` while it runs; with its key, so that it lets in."""
    command = [*COMMAND, "view", "--no-browser", "--db", str(db)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
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


def addresses(page: Page, base: str) -> dict[str, str]:
    """The pages and where they are: of what the demo left in the log."""
    page.goto(f"{base}/runs")
    page.wait_for_selector("tr[data-run]")
    links = page.locator("tr[data-run] .reach").all()
    newest, hardened, vulnerable = ((each.get_attribute("href") or "")[6:] for each in links[:3])
    task = href_of(page, f"{base}/runs/{vulnerable}", "tr[data-failed] .reach")
    pair = f"baseline={vulnerable}&new={hardened}"
    return {
        "home": "/",
        "runs": "/runs",
        "run": f"/runs/{newest}",
        "run-drawer": f"/runs/{vulnerable}?task={task.rpartition('/')[2]}",
        "task": task,
        "matrix": f"/matrix?run={vulnerable}&run={hardened}",
        "compare": f"/compare?{pair}&wait=1",
        "suite": href_of(page, f"{base}/runs", ".group-row a"),
        "review-item": href_of(page, f"{base}/review", "tr[data-task] .reach"),
        **{name: f"/{name}" for name in FIXED},
    }


def reports(folder: Path, environment: dict[str, str], before: str, after: str) -> dict[str, str]:
    """The reports in files and their addresses: a comparison, one of its cases, a run, prompts."""
    prompts = folder / "prompts"
    prompts.mkdir()
    for name, text in PROMPTS.items():
        (prompts / name).write_text(text)
    report, run, linted = (folder / name for name in ("report", "run.html", "prompts.html"))
    for asked in (
        ["compare", before, after, "--out", str(report), "--fail-on", "none"],
        ["show", after, "--html", str(run)],
        ["prompts", str(prompts), "-t", "0", "-o", str(linted), "--quiet"],
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


def photograph(context: BrowserContext, name: str, address: str) -> None:
    """One page at both widths in both themes."""
    page, bench = context.new_page(), context.new_page()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.goto(address)
            page.wait_for_load_state("networkidle")
            path = FOLDER / f"{name}-{width}-{theme}.png"
            path.write_bytes(reduced(bench, page.screenshot()))
    page.close()
    bench.close()


def main() -> None:
    """Run the demo, look at its pages, and at those of somebody who comes for the first time."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        db, empty = Path(folder, "demo.db"), Path(folder, "empty.db")
        environment = os.environ | {"EVALWRIGHT_DB": str(db)}
        subprocess.run([*COMMAND, "demo"], env=environment, check=True, stdout=subprocess.DEVNULL)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        with viewing(db) as url:
            stranger = chromium.new_context()
            photograph(stranger, "sign-in", base_of(url))
            visitor = chromium.new_context()
            page = visitor.new_page()
            page.goto(url)
            known = addresses(page, base_of(url))
            for name, address in known.items():
                photograph(visitor, name, f"{base_of(url)}{address}")
            new, old = parse_qs(urlsplit(known["matrix"]).query)["run"]
            for name, address in reports(Path(folder), environment, old, new).items():
                photograph(stranger, name, address)
        with viewing(empty) as url:
            visitor = chromium.new_context()
            visitor.new_page().goto(url)
            photograph(visitor, "first-visit", base_of(url))
        chromium.close()
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{len(list(FOLDER.iterdir()))} pictures, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
