"""Run one command and write what it used: `launch.py REPORT COMMAND...`.

A process of its own, with next to nothing imported: the peak memory of a child starts from what its
parent held when it started it, so a large parent would be measured instead of the child.
"""

import os
import sys
import time

# Linux counts in KiB, macOS in bytes.
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def main() -> int:
    report, *command = sys.argv[1:]
    begun = time.monotonic()
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, used = os.wait4(child, 0)
    wall = time.monotonic() - begun
    with open(report, "w") as file:  # noqa: PTH123 (pathlib is memory)
        print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * RSS_UNIT, file=file)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
