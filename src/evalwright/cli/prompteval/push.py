"""`prompteval --push`: results for the pages, on a host or in a log."""

import os
import re
from collections.abc import Mapping, Sequence

from evalwright.cli.parameters import configured_db
from evalwright.cli.remote import KEY_VARIABLE
from evalwright.client import Client
from evalwright.contracts.errors import BadInput
from evalwright.contracts.prompt_result import PromptResult
from evalwright.host.library.prompts import PromptLibrary
from evalwright.reports.prompts.groups import Overview
from evalwright.reports.prompts.source_view import masked
from evalwright.store.location import opened_log
from evalwright.store.records import LOCAL_TENANT

LOCAL = "local"  # the log that commands use by default
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+/?")


def push(place: str, results: Sequence[PromptResult], texts: Mapping[str, str]) -> str:
    """Keep results in a place; gives a line that tells what was kept where."""
    if not results:
        return "nothing was pushed: there are no results"
    if place.startswith(("http://", "https://")):
        key = os.environ.get(KEY_VARIABLE)
        if not key:
            raise BadInput(
                f"--push: set {KEY_VARIABLE} to a key of the host, with the scope prompts:write"
            )
        files = Client(place, key).push_prompts(results, _without_secrets(results, texts))
        where = place
    elif _HOST_AND_PORT.fullmatch(place):  # a file of that name is hardly meant
        raise BadInput(f"--push: for a host, write http://{place} or https://{place}")
    else:
        with opened_log(configured_db(None) if place == LOCAL else place) as log:
            files = PromptLibrary(log.records).keep(LOCAL_TENANT, results, texts)
            where = log.place
    return f"pushed: {files:,} {'prompt' if files == 1 else 'prompts'} to {where}"


def _without_secrets(results: Sequence[PromptResult], texts: Mapping[str, str]) -> dict[str, str]:
    return {
        file.path: masked(texts[file.path], file.findings)
        for file in Overview(results).files
        if file.path in texts
    }
