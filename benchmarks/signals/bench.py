"""How good and how fast the signals are, on labelled traces.

python benchmarks/signals/bench.py [DIRECTORY]     default: ../shared/data/agent-traces
"""

import sys
from pathlib import Path

import injection
import sensitive
import speed

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-traces"


def main() -> None:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    if not data.is_dir():
        sys.exit(
            f"{data}: no labelled traces here; name their directory: make bench-signals TRACES=dir"
        )
    injection.report(data)
    sensitive.report(data)
    speed.report(data)


if __name__ == "__main__":
    main()
