"""The process of a local model: the server of llama.cpp on loopback, until its parent is gone.

It is told on stdin what to serve, answers on stdout where, and lives as long as stdin stays open:
however the parent ends, the pipe closes. Nothing of it is imported by the parent.
"""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

WATCHED_EVERY_S = 1.0


def main() -> None:
    """Serve until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted command still closes its models
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    try:
        wanted = json.loads(sys.stdin.buffer.readline())
        answers = os.dup(1)
        os.dup2(2, 1)  # what llama.cpp prints is no answer
        try:
            server = _started(wanted)
            told = {"address": server.listening_address}
        except Exception as error:  # noqa: BLE001 - the parent reports whatever it is
            told = {"error": f"{type(error).__name__}: {error}"}
        os.write(answers, json.dumps(told).encode() + b"\n")
        os.close(answers)
        while sys.stdin.buffer.read(1024):
            pass
    finally:
        os._exit(0)  # threads of the server would keep the process, and nothing has to be saved


def _started(wanted: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = wanted["model"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any that is free
    params.api_keys = [wanted["key"]]
    params.use_jinja = True
    params.n_parallel = 1  # one after the other: the same request gets the same answer
    params.n_ctx = wanted["context"]
    params.n_predict = wanted["most_tokens"]
    params.sampling.temp = (
        0.2  # where a request sets none; a fixed seed, so that runs can be compared
    )
    params.sampling.seed = 1
    params.n_gpu_layers = 0
    params.offline = True
    params.ui = False
    params.warmup = False
    params.verbosity = 0
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = wanted["threads"]
    return xllamacpp.Server(params)


def _watch(parent: int) -> None:
    """End with the parent also where another process still holds the pipe."""
    while os.getppid() == parent:
        time.sleep(WATCHED_EVERY_S)
    os._exit(0)


if __name__ == "__main__":
    main()
