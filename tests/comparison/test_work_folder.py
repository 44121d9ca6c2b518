"""The folder in which the sides of a comparison are unpacked."""

import tracemalloc
from pathlib import Path

from evalwright.comparison.inputs import WorkFolder


def test_to_remove_it_takes_no_memory_for_each_of_its_files(tmp_path: Path) -> None:
    with WorkFolder(dir=tmp_path) as work:
        for side in ("baseline", "new"):
            (Path(work) / side / "deeper").mkdir(parents=True)
            for number in range(1500):
                (Path(work) / side / f"{number:08}.json").touch()
        tracemalloc.start()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not list(tmp_path.iterdir())
    assert peak < 150_000  # a list of them takes twice as much
