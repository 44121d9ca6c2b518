"""The peers under measurement: each by a script that runs inside its own environment."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from environments import environment
from measure import NotMeasuredError, Place, Usage

SCRIPTS = Path(__file__).parent / "peers"
# The best of what was tried for both peers; unlimited, pydantic-evals takes more time and memory.
CONCURRENCY = 100


def script(place: Place, package: str, action: str, *options: str) -> tuple[Usage, float]:
    """What the process used, and the seconds inside the one call that does the work."""
    python = environment(package) / "python"
    path = SCRIPTS / f"{package.replace('-', '_')}_bench.py"
    output = place.scratch / "peer.json"
    used = place.measure(
        [str(python), str(path), action, *options], cwd=place.scratch, output=output
    )
    answer = json.loads(output.read_text().splitlines()[-1])
    tasks = int(options[options.index("--tasks") + 1])
    if answer["passed"] != tasks:
        raise NotMeasuredError(f"{answer['passed']} of {tasks} tasks passed")
    return used, answer["seconds"]


@dataclass(frozen=True)
class PydanticEvals:
    place: Place
    package: str = "pydantic-evals"

    def instant(self, subject: str, tasks: int) -> dict[str, float]:
        used, _ = self.run(subject, tasks, CONCURRENCY)
        return {"cpu_seconds": used.cpu_seconds, "peak_bytes": used.peak_bytes}

    def latency(self, subject: str, tasks: int, concurrency: int) -> dict[str, float]:
        used, seconds = self.run(subject, tasks, concurrency)
        return {"run_seconds": seconds, **asdict(used)}

    def run(self, subject: str, tasks: int, concurrency: int) -> tuple[Usage, float]:
        limits = ["--tasks", str(tasks), "--concurrency", str(concurrency)]
        return script(self.place, self.package, subject, *limits)


@dataclass(frozen=True)
class InspectAi:
    place: Place
    package: str = "inspect-ai"

    def startup(self, flag: str) -> dict[str, float]:
        command = environment(self.package) / "inspect"
        used = self.place.measure([str(command), flag], cwd=self.place.scratch)
        return {"wall_seconds": used.wall_seconds}

    def instant(self, tasks: int) -> dict[str, float]:
        used, _ = self.run("instant", tasks, CONCURRENCY)
        return {"cpu_seconds": used.cpu_seconds, "peak_bytes": used.peak_bytes}

    def latency(self, tasks: int, concurrency: int) -> dict[str, float]:
        used, seconds = self.run("pause", tasks, concurrency)
        return {"run_seconds": seconds, **asdict(used)}

    def readback(self, action: str, tasks: int) -> dict[str, float]:
        if not self.logs("instant", tasks).exists():
            self.run("instant", tasks, CONCURRENCY)
        log = ["--tasks", str(tasks), "--log-dir", str(self.logs("instant", tasks))]
        used, seconds = script(self.place, self.package, action, *log)
        return {**asdict(used), "call_seconds": seconds}

    def run(self, action: str, tasks: int, concurrency: int) -> tuple[Usage, float]:
        logs = self.logs(action, tasks)
        shutil.rmtree(logs, ignore_errors=True)
        limits = ["--tasks", str(tasks), "--concurrency", str(concurrency)]
        return script(self.place, self.package, action, *limits, "--log-dir", str(logs))

    def logs(self, action: str, tasks: int) -> Path:
        return self.place.scratch / f"inspect-{action}-{tasks}"
