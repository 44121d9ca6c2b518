"""What a comparison costs: CPU, wall time, memory, files, and the first view in a browser.

python benchmarks/compare/bench.py [--cases 10000] [--large 100000] [--generator gen_runs.py]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from first_view import first_view_seconds
from made_runs import make_runs

HERE = Path(__file__).resolve().parent
SHARED_GENERATOR = HERE.parents[2] / "shared" / "tools" / "gen_runs.py"
RESULTS = HERE.parent / "results" / "compare.json"
MB = 1_000_000


def main() -> None:
    options = _options()
    figures = []
    with tempfile.TemporaryDirectory(prefix="evalwright-bench-") as folder:
        for count in filter(None, (options.cases, options.large)):
            sides, origin = _input(Path(folder) / f"in-{count}", count, options.generator)
            report = Path(folder) / f"report-{count}"
            figure = {"cases": count, "input": origin, **_measure(*sides, report)}
            figure["first_view_s"] = round(first_view_seconds(report / "report.html"), 2)
            figure["report_html_kb"] = (report / "report.html").stat().st_size // 1000
            figures.append(figure)
            print(_line(figure), flush=True)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
            shutil.rmtree(report)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=0, help="also measure with so many cases")
    parser.add_argument("--generator", type=Path, default=SHARED_GENERATOR)
    return parser.parse_args()


def _input(folder: Path, cases: int, generator: Path) -> tuple[tuple[Path, Path], str]:
    if not generator.is_file():
        return make_runs(folder, cases), "made_runs.py"
    command = [sys.executable, str(generator), "--cases", str(cases), "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    runs = folder / "runs"
    return (runs / "baseline" / "latest", runs / "new" / "latest"), generator.name


def _measure(baseline: Path, new: Path, report: Path) -> dict:
    evalwright = str(Path(sys.executable).with_name("evalwright"))
    sides = ["--baseline", str(baseline), "--new", str(new)]
    command = [evalwright, "compare", *sides, "--out", str(report), "--fail-on", "none"]
    began, before = time.monotonic(), os.times()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    memory = _peak_memory(process)
    wall, after = time.monotonic() - began, os.times()
    assert process.returncode == 0
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    files = [path for path in report.rglob("*") if path.is_file()]
    return {
        "cpu_s": round(user + system, 2),
        "user_s": round(user, 2),
        "system_s": round(system, 2),
        "wall_s": round(wall, 2),
        "peak_mb": round(memory / MB),
        "files": len(files),
        "output_mb": sum(path.stat().st_size for path in files) // MB,
    }


def _peak_memory(process: subprocess.Popen) -> int:
    """The most that the process and its children held at once; shared pages are counted once."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_held, _family(process.pid))))
        time.sleep(0.5)  # more often would slow down what is measured
    return peak


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(each for child in children for each in _family(int(child)))]


def _held(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _line(figure: dict) -> str:
    return "  ".join(f"{name}={value}" for name, value in figure.items())


if __name__ == "__main__":
    main()
