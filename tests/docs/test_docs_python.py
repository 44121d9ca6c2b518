"""The reference of the Python interface is what the docstrings say."""

import subprocess
import sys

from doc_pages import ROOT


def test_the_python_reference_is_current() -> None:
    """Write it anew with `python tools/api_page.py`."""
    command = [sys.executable, ROOT / "tools" / "api_page.py", "--check"]
    assert subprocess.run(command, check=False).returncode == 0
