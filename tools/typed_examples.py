"""Check the types of the examples on the pages about Python: by mypy, strictly, and by pyright.

python tools/typed_examples.py            # mypy, and pyright where it is installed
python tools/typed_examples.py --pyright  # both; exit code 2 where pyright is not installed
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/python.md")
UNTYPED = ("test_",)  # functions of tests, which hardly anybody annotates
CACHE = f"--cache-dir={ROOT / '.mypy_cache' / 'examples'}"
MYPY = [sys.executable, "-m", "mypy", "--strict", "--config-file=", CACHE, "."]
PYRIGHT = ("--level", "error", "--pythonpath")
PYRIGHT_SETTINGS = '{"typeCheckingMode": "strict"}'

sys.path.insert(0, str(ROOT / "tests" / "docs"))
from doc_pages import Block, blocks  # noqa: E402 - it stands with the tests


def main() -> int:
    pyright = found_pyright()
    if pyright is None and "--pyright" in sys.argv[1:]:
        print("pyright is not installed; run: make types", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        folders = [written(page, Path(scratch)) for page in PAGES]
        commands = [MYPY, *([[pyright, *PYRIGHT, sys.executable, "."]] if pyright else [])]
        codes = [
            subprocess.run(command, cwd=folder, check=False).returncode
            for folder in folders
            for command in commands
        ]
    return max(codes)


def found_pyright() -> str | None:
    """Either of the two, from the environment that `make types` installs or from elsewhere."""
    own = ROOT / ".venv-types" / "bin" / "basedpyright"
    return str(own) if own.exists() else shutil.which("basedpyright") or shutil.which("pyright")


def written(page: str, scratch: Path) -> Path:
    """The examples of a page as files beside each other, as a reader saves them."""
    folder = scratch / Path(page).stem
    folder.mkdir()
    (folder / "pyrightconfig.json").write_text(PYRIGHT_SETTINGS)
    for number, block in enumerate(examples(page)):
        name = block.options.get("title") or f"example_{number}.py"
        (folder / name).write_text(block.text, "utf-8")
    return folder


def examples(page: str) -> list[Block]:
    """Those that use the package, and are not tests; the last version of a file counts."""
    python = [each for each in blocks(ROOT / page) if each.language == "python"]
    own = [each for each in python if not each.options.get("title", "").startswith(UNTYPED)]
    return [each for each in own if "import evalwright" in each.text]


if __name__ == "__main__":
    sys.exit(main())
