"""Stands in for llama.cpp: a server on loopback that answers as `replies.json` beside it says.

Every start and every request is a line of `seen.jsonl` beside it.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parent


def note(**line: Any) -> None:
    with (FOLDER / "seen.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


class CommonParams(SimpleNamespace):
    def __init__(self) -> None:
        cpu = {"cpuparams": SimpleNamespace(), "cpuparams_batch": SimpleNamespace()}
        super().__init__(model=SimpleNamespace(), sampling=SimpleNamespace(), **cpu)


class Server:
    def __init__(self, params: CommonParams) -> None:
        sys.stdout.write("llama.cpp says much on stdout\n")
        sys.stdout.flush()
        replies = json.loads((FOLDER / "replies.json").read_text())
        if replies == "broken":
            raise RuntimeError("failed to load the model")
        if replies == "dead":
            os._exit(3)
        kept = ("hostnames", "port", "use_jinja", "n_predict", "n_ctx", "n_parallel")
        note(start=os.getpid(), params={name: getattr(params, name) for name in kept})
        key = f"Bearer {params.api_keys[0]}"

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                allowed = self.headers["Authorization"] == key
                note(path=self.path, allowed=allowed, body=body)
                reply = replies.pop(0) if len(replies) > 1 else replies[0]
                if reply == "hang":
                    threading.Event().wait()
                choice = {"message": {"content": reply}, "finish_reason": "stop"}
                usage = {"prompt_tokens": 5, "completion_tokens": 2}
                answer = json.dumps({"choices": [choice], "usage": usage}).encode()
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer((params.hostnames[0], params.port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()  # as of the real one, no daemon
        self.listening_address = f"http://{params.hostnames[0]}:{server.server_port}"
