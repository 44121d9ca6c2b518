"""The HTML report on a library of 2,000 prompts in Chromium: size, elements, time to load."""

import argparse
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from bench import COMMAND, made_library

FIGURES = """() => {
  const [page] = performance.getEntriesByType("navigation");
  return [document.querySelectorAll("*").length, page.domInteractive, page.loadEventEnd];
}"""


def loaded(browser: Browser, url: str) -> tuple[float, float, float]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(url, wait_until="load")
    page.wait_for_timeout(50)
    elements, interactive, load = page.evaluate(FIGURES)
    context.close()
    return elements, interactive, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.html")
        library = made_library(Path(scratch), given.files)
        command = [COMMAND, library, "-t", "0", "--quiet", "-o", report]
        subprocess.run(command, check=False)  # prompts below the threshold are no failure here
        print(f"size      {report.stat().st_size / 1e6:.1f} MB")
        with sync_playwright() as playwright:
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            found = [loaded(browser, report.as_uri()) for _ in range(given.repeat)]
            browser.close()
    for name, values in zip(
        ("elements", "ready ms", "loaded ms"), zip(*found, strict=True), strict=True
    ):
        print(f"{name:9} median {statistics.median(values):.0f}  best {min(values):.0f}")


if __name__ == "__main__":
    main()
