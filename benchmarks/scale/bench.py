"""`make bench-scale`: see `measures.py`."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("tests", "benchmarks/host")]

from measures import main  # noqa: E402 - what it needs is found only now

if __name__ == "__main__":
    main()
