"""How long a reader waits for the first view of a report, in a real browser."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

# Both are counted from the start of the navigation.
_MOMENTS = """(rows) => new Promise((done) => {
  const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
  const look = () => {
    const stand = document.querySelector(rows) !== null;
    const ready = document.readyState === "complete" && stand && paint();
    if (ready) requestAnimationFrame(() => done([paint().startTime, performance.now()]));
    else setTimeout(look, 1);
  };
  look();
})"""


def first_view_seconds(report_html: Path, rows: str = "#case-table tbody tr") -> float:
    """From the start of the navigation until the page is painted and its first rows stand."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(report_html.resolve().as_uri(), wait_until="commit")
        painted, rows_stand = page.evaluate(_MOMENTS, rows)
        browser.close()
    return float(max(painted, rows_stand)) / 1000


if __name__ == "__main__":
    print(f"{first_view_seconds(Path(sys.argv[1])):.3f} s")
