"""A program that is an agent: it reads one request and behaves as its argument says."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

WAIT_FOR_EVER = "import signal; signal.pause()"


def note(line: str) -> None:
    """Append a line to the journal."""
    with open(os.environ["JOURNAL"], "a") as journal:  # noqa: PTH123 - a small program
        journal.write(f"{line}\n")


def reply(output: Any, **more: Any) -> None:
    """Write one response."""
    json.dump({"output": output, **more}, sys.stdout)


def answer(request: dict[str, Any]) -> None:
    """As it should be."""
    note(json.dumps(request))
    reply("yes")


def tell(request: dict[str, Any]) -> None:
    """With all that a response may hold."""
    call = {"toolName": "shop:orders.get", "callId": f"{os.getpid()}"}
    reply(
        "yes",
        events=[
            {"type": "agent.reasoned", "reasoning": "look"},
            {"type": "agent.toolCalled", **call},
            {"type": "agent.toolReturned", **call, "outcome": 1},
        ],
        usage={"inputTokens": 1, "outputTokens": 1, "costUsd": 0.5},
    )


def fail(request: dict[str, Any]) -> None:
    """Leave with an exit code and words on stderr, after an answer that must not count."""
    reply("yes")
    sys.stderr.write("x" * 100_000 + "\nthe licence has run out \x1b[31m\udcff\n")
    sys.exit(7)


def die(request: dict[str, Any]) -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def babble(request: dict[str, Any]) -> None:
    """No JSON."""
    sys.stdout.write("the answer is yes")


def be_silent(request: dict[str, Any]) -> None:
    """Nothing at all."""


def flood(request: dict[str, Any]) -> None:
    """Much more than anybody reads."""
    chunk = b"x" * 1_000_000
    while True:
        os.write(1, chunk)


def hang_with_a_child(request: dict[str, Any]) -> None:
    """Never end, and have a child that never ends."""
    child = subprocess.Popen([sys.executable, "-c", WAIT_FOR_EVER])
    note(f"{os.getpid()} {child.pid}")
    signal.pause()


def leave_a_child(request: dict[str, Any]) -> None:
    """Answer and end, and leave a child behind that holds none of our streams."""
    child = subprocess.Popen(
        [sys.executable, "-c", WAIT_FOR_EVER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    note(f"{os.getpid()} {child.pid}")
    reply("yes")


def leave_a_child_with_our_stdout(request: dict[str, Any]) -> None:
    """Answer and end, and leave a child behind that inherited everything."""
    child = subprocess.Popen([sys.executable, "-c", WAIT_FOR_EVER])
    note(f"{os.getpid()} {child.pid}")
    reply("yes")


def main() -> None:
    """Read, unless told not to, and behave."""
    behaviour = sys.argv[1]
    if behaviour == "ignore_stdin":
        reply("yes")
        return
    if behaviour == "close_stdin":
        os.close(0)
        reply("yes")
        return
    request = json.load(sys.stdin)
    globals()["answer" if behaviour in globals() and request["taskId"] == "task-2" else behaviour](
        request
    )


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.stderr.reconfigure(errors="surrogateescape")
    main()
