"""What people call tasks: a title, and a name in place of an id that was made from the content.

Both are content: they are made when somebody looks, from the plan of a run or from a suite, and
secrets are masked before anything is cut off. Events carry the id alone.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from evalwright.contracts.marks import MARK
from evalwright.contracts.suite import Task
from evalwright.trace.model import text_of

MADE_ID = re.compile(r"(?:row|task)-([0-9a-f]{12})((?:-.+)?)")  # see `suites.ids`
_MASKED = re.compile(MARK.pattern.decode())
MOST_TITLE = 72  # characters
_MOST_READ = 20_000  # of a text, before it is cut: a secret must be seen as a whole
_MOST_WORDS, _MOST_SLUG = 6, 40
_FEW = 4  # digits that tell a row from others with the same words
_ASKED = (
    *("question", "prompt", "query", "instruction", "user_input", "input", "inputs", "problem"),
    *("request", "user_message", "message", "utterance", "task", "goal", "text", "content"),
)


class TaskName(NamedTuple):
    """What a task is called: `name` may be typed in place of its id."""

    name: str
    title: str

    @property
    def subtitle(self) -> str:
        """The title where it says more than the name; else nothing."""
        return "" if self.title == self.name else self.title

    @property
    def told(self) -> list[str]:
        """The name, and the title where that says more."""
        return list(filter(None, (self.name, self.subtitle)))


class TaskNames:
    """The names of the tasks of one suite; a task is only read when it is asked for."""

    def __init__(
        self, ids: Iterable[str], read: Callable[[str], Task | None], *, is_masked: bool = False
    ) -> None:
        self._ids = dict.fromkeys(ids)
        self._read = read
        self._is_masked = is_masked  # or shown with its secrets
        self._alike: dict[tuple[str, str], list[str]] | None = None
        self._words: dict[tuple[str, str], Counter[str]] = {}
        self._known: dict[str, TaskName] = {}

    @classmethod
    def of_tasks(cls, tasks: Sequence[Task], *, is_masked: bool = False) -> "TaskNames":
        """Those of tasks that are at hand."""
        by_id = {task.task_id: task for task in tasks}
        return cls(by_id, by_id.get, is_masked=is_masked)

    def of(self, task_id: str) -> TaskName:
        """What a task is called; one that is not known, by its id."""
        known = self._known.get(task_id)
        if known is None:
            task = self._read(task_id)
            known = TaskName(task_id, task_id) if task is None else self._name(task)
            if len(self._known) < 100_000:
                self._known[task_id] = known
        return known

    def name_of(self, task_id: str) -> str:
        """What people type in place of an id."""
        return self.of(task_id).name if MADE_ID.fullmatch(task_id) else task_id

    def find(self, typed: str) -> str | None:
        """The id of the task that is meant by its id or its name; None if there is none."""
        if typed in self._ids:
            return typed
        parts = typed.split("-")
        for place, part in enumerate(parts):
            if place and re.fullmatch(r"[0-9a-f]{4}|[0-9a-f]{12}", part):
                suffix = "".join(f"-{each}" for each in parts[place + 1 :])
                for task_id in self._with(part[:_FEW], suffix):
                    if typed in self._spellings(task_id, part, suffix):
                        return task_id
        return None

    def _name(self, task: Task) -> TaskName:
        title = self._title(task)
        made = MADE_ID.fullmatch(task.task_id)
        words = slug_of(title) if made else ""
        if made is None or not words:
            return TaskName(task.task_id, title or task.task_id)
        name = f"{words}-{made[1][:_FEW]}{made[2]}"
        if name in self._ids or self._words_with(made[1][:_FEW], made[2])[words] > 1:
            name = f"{words}-{made[1]}{made[2]}"
        return TaskName(name, title if task.title else name)

    def _title(self, task: Task) -> str:
        text = (task.title or asked(task.input))[:_MOST_READ]
        if not self._is_masked:
            from evalwright.signals.masking import mask_text  # with every detector of secrets

            text = mask_text(text, personal=False)
        return cut(text)

    def _words_with(self, digits: str, suffix: str) -> Counter[str]:
        """How many of the ids that begin with these digits have the same words."""
        alike = self._with(digits, suffix)
        if len(alike) < 2:
            return Counter()
        if (digits, suffix) not in self._words:
            tasks = map(self._read, alike)
            titles = ("" if task is None else self._title(task) for task in tasks)
            self._words[digits, suffix] = Counter(map(slug_of, titles))
        return self._words[digits, suffix]

    def _with(self, digits: str, suffix: str) -> list[str]:
        """The ids that were made from content and begin with these digits."""
        if self._alike is None:
            self._alike = {}
            for task_id in self._ids:
                if made := MADE_ID.fullmatch(task_id):
                    self._alike.setdefault((made[1][:_FEW], made[2]), []).append(task_id)
        return self._alike.get((digits, suffix), [])

    def _spellings(self, task_id: str, digits: str, suffix: str) -> set[str]:
        """The names of a task with so many digits, with its secrets masked and not."""
        task = self._read(task_id)
        if task is None or not task_id.partition("-")[2].startswith(digits):
            return set()
        plain = cut((task.title or asked(task.input))[:_MOST_READ])
        return {f"{slug_of(each)}-{digits}{suffix}" for each in (self._title(task), plain)}


NO_NAMES = TaskNames((), lambda _: None)  # by which a task is called by its id


def called(task_id: str, title: str) -> TaskName:
    """What a task is called whose title is known."""
    made = MADE_ID.fullmatch(task_id)
    if made is None:
        return TaskName(task_id, title)
    if title.endswith((f"-{made[1][:_FEW]}{made[2]}", f"-{made[1]}{made[2]}")):
        return TaskName(title, title)
    words = slug_of(title)
    return TaskName(f"{words}-{made[1][:_FEW]}{made[2]}" if words else task_id, title)


def case_called(case_id: str, title: str) -> TaskName:
    """What a case of a comparison is called, whose title may begin with that."""
    name, _, rest = title.partition(": ")
    made = MADE_ID.fullmatch(case_id)
    if name != case_id and not (made and name.endswith((f"-{made[1][:_FEW]}{made[2]}", made[1]))):
        return TaskName(case_id, cut(title))
    return TaskName(name, cut(rest or name))


def asked(given: Any) -> str:
    """What is asked: a question, the last message of a user, else the first text there is."""
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        said = [each for each in given if isinstance(each, dict) and each.get("role") == "user"]
        parts = said[-1:] or given
        texts = (asked(each) for each in parts)
        return next((text for text in texts if text.strip()), "")
    if not isinstance(given, dict):
        return text_of(given)
    if isinstance(given.get("messages"), list) and (text := asked(given["messages"])):
        return text
    named = {key.lower().replace(" ", "_"): value for key, value in given.items()}
    found = (asked(named[key]) for key in _ASKED if key in named)
    texts = (value for value in given.values() if isinstance(value, str))
    return next((text for text in (*found, *texts) if text.strip()), text_of(given))


def cut(text: str) -> str:
    """The first words of a text, in one line."""
    line = " ".join(text[: 8 * MOST_TITLE].split())
    if len(line) <= MOST_TITLE:
        return line
    words = line[:MOST_TITLE].rpartition(" ")[0]
    return f"{words if len(words) > MOST_TITLE // 2 else line[: MOST_TITLE - 1]}…"


def slug_of(text: str) -> str:
    """The first words of a text as a name: letters and digits of any script, and hyphens."""
    plain = unicodedata.normalize("NFKC", _MASKED.sub(" ", text)).lower()
    kept = "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in plain)
    name = ""
    for word in kept.split()[:_MOST_WORDS]:
        longer = f"{name}-{word}" if name else word[:_MOST_SLUG]
        if len(longer) > _MOST_SLUG:
            break
        name = longer
    return name
