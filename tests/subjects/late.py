"""An agent that takes its time to load: until the gate is open."""

import os
import time
from pathlib import Path

from journal import answer, note

__all__ = ["answer"]

note("loading")
while not Path(os.environ["GATE"]).exists():
    time.sleep(0.002)
