"""Own code beside the library that could take its place: what docs/decisions.md quotes.

    uv run --with sse-starlette --with jinja2 \\
        python benchmarks/choices/bench.py [FOLDER]

FOLDER holds Markdown prompts to read as well. A library that is not installed is left out. Figures
are CPU time, the best of five.
"""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

BEST_OF = 5


def cpu(work: Callable[[], object], times: int) -> float:
    """Microseconds of CPU that one of many calls takes."""
    best = float("inf")
    for _ in range(BEST_OF):
        started = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - started)
    return best / times * 1e6


def imported(*modules: str) -> float:
    """Milliseconds of CPU that an import adds to a new process."""

    def seconds(names: tuple[str, ...]) -> float:
        code = "import time, sys; " + "".join(f"import {name}; " for name in names)
        code += "print(time.process_time())"
        runs = [
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
            for _ in range(BEST_OF)
        ]
        return min(float(run.stdout) for run in runs)

    return (seconds(modules) - seconds(modules[:-1])) * 1e3


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def row(what: str, own: str, library: str) -> None:
    print(f"| {what} | {own} | {library} |")


def markdown() -> None:
    """Blocks of 3 MB of Markdown, with places."""
    from markdown_it import MarkdownIt

    from evalwright.prompts.markdown_blocks import scan_blocks

    part = (
        "## Step {n}\n\nRead the *mail* and answer in two sentences, as `support`.\n\n"
        '- name the order\n- name the price\n  1. in euros\n\n```json\n{{"id": {n}}}\n```\n\n'
        "| field | meaning |\n| --- | --- |\n| id | the order |\n\n> Never promise a refund.\n\n"
    )
    text = "".join(part.format(n=number) for number in range(14_500))  # one long file
    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
    own, library = cpu(lambda: scan_blocks(text), 1), cpu(lambda: parser.parse(text), 1)
    row(
        f"Markdown blocks of {len(text) / 1e6:.1f} MB",
        f"{own / 1e6:.2f} s",
        f"markdown-it-py, block rules only: {library / 1e6:.2f} s",
    )
    for folder in sys.argv[1:]:
        texts = [path.read_text("utf-8", "replace") for path in Path(folder).rglob("*.md")]
        own = cpu(lambda texts=texts: [scan_blocks(each) for each in texts], 1)
        library = cpu(lambda texts=texts: [parser.parse(each) for each in texts], 1)
        row(
            f"Markdown blocks of {len(texts)} files, {sum(map(len, texts)) / 1e6:.1f} MB",
            f"{own / 1e6:.2f} s",
            f"markdown-it-py, block rules only: {library / 1e6:.2f} s",
        )


def routing() -> None:
    """The last route of the table, by both routers."""
    from starlette.routing import Route, Router

    from evalwright.host.http.routing import RouteTable
    from evalwright.host.v1.api import v1_routes

    ours = v1_routes()
    table = RouteTable(ours)

    async def nothing(_: object) -> None: ...

    router = Router(
        [Route(route.path.replace(":", "%3A"), nothing, methods=[route.method]) for route in ours]
    )
    path = "/v1/runs/run_01m7f7sbhgtc0s8z7wy43bwfs2/eval-summary"
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}

    def find() -> None:
        next(route for route in router.routes if route.matches(scope)[0].value == 2)

    row(
        f"finding one of {len(ours)} routes",
        f"{cpu(lambda: table.find('GET', path), 5_000):.1f} µs",
        f"Starlette's router: {cpu(find, 5_000):.1f} µs",
    )


def streams() -> None:
    """One event as a frame of a stream, and an idle stream."""
    from evalwright.host.v1.events import as_frame

    data = json.dumps({"runId": "run_01", "payload": {"score": 1, "note": "x" * 300}}).encode()
    own = f"{cpu(lambda: as_frame(7, 'eval.scored', data), 50_000):.2f} µs"
    if not has("sse_starlette"):
        row("a frame of 350 bytes", own, "not installed")
        return
    from sse_starlette import ServerSentEvent

    text = data.decode()
    frame = cpu(lambda: ServerSentEvent(text, event="eval.scored", id="7").encode(), 50_000)
    row("a frame of 350 bytes", own, f"sse-starlette: {frame:.2f} µs")


def pages() -> None:
    """A page of 40 escaped rows, by a template."""
    from minijinja import Environment

    source = "<table>{% for r in rows %}<tr><td>{{ r.a }}</td><td>{{ r.b }}</td></tr>{% endfor %}"
    rows = [{"a": f"case <{number}>", "b": "text & more " * 8} for number in range(40)]
    ours = Environment(templates={"page.html": source + "</table>"})
    own = f"minijinja: {cpu(lambda: ours.render_template('page.html', rows=rows), 2_000):.0f} µs"
    if not has("jinja2"):
        row("a page of 40 rows by a template", own, "not installed")
        return
    import jinja2

    theirs = jinja2.Environment(autoescape=True).from_string(source + "</table>")
    row(
        "a page of 40 rows by a template",
        own,
        f"jinja2: {cpu(lambda: theirs.render(rows=rows), 2_000):.0f} µs",
    )


def main() -> None:
    print("| what | own | library |\n| --- | --- | --- |")
    for measure in (markdown, routing, streams, pages):
        measure()


if __name__ == "__main__":
    main()
