"""Models as judges of prompts: by G-Eval, and a `.prompt.yml` by its own cases too."""

from collections.abc import Callable

import msgspec

from evalwright.contracts.errors import BadInput, MissingKey
from evalwright.contracts.prompt_result import ModelFacts
from evalwright.engine.session import ModelPool
from evalwright.models.protocol import Model
from evalwright.prompts.cases import CaseRun, run_cases
from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.evaluate import EvaluationSettings
from evalwright.prompts.failing import EvaluationFailed
from evalwright.prompts.geval.judgement import GEval, JudgeSettings
from evalwright.prompts.geval.steps import FileSteps, MemorySteps, StepStore, default_path
from evalwright.prompts.judged import Evaluated, Judge
from evalwright.prompts.prompt_yaml import parse_prompt_yaml
from evalwright.prompts.results import Assessment, Failure

# Ollama silently cuts what is longer than its context, which is 4096 tokens unless configured.
OLLAMA_INPUT_TOKENS = 4_000
REPEATED_TEMPERATURE = 0.7  # at 0, repeats would show less noise than there is

LoadModel = Callable[[str], Model]
_NO_CASES = CaseRun([], [], [])


class PromptJudge:
    """Judges prompts with one model, which also runs the cases of a `.prompt.yml`."""

    def __init__(
        self,
        model: Model,
        facts: ModelFacts,
        settings: EvaluationSettings,
        steps: StepStore,
        load: LoadModel,
    ) -> None:
        judge_settings = _settings(settings, facts.provider)
        self._model = model
        self._geval = GEval(model, steps, judge_settings)
        self._load = load
        parameters = {
            "temperature": judge_settings.sampling_temperature,
            "samples": judge_settings.samples,
        }
        self.facts = msgspec.structs.replace(facts, parameters=parameters)

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:
        """Judge a prompt once; raises `EvaluationFailed`."""
        ran = await self._run_cases(prompt, run_index)
        try:
            made = await self._geval.judge(prompt, run_index)
        except EvaluationFailed as failed:
            usages = [*ran.usages, *failed.usages]
            raise EvaluationFailed(failed.code, failed.message, usages, failed.retries) from None
        assessment = Assessment(
            rubric={name: (each.score, each.reasoning) for name, each in made.criteria.items()},
            summary=made.summary,
            structural=None,
            cases=ran.cases,
            method=made.method,
            covered_mass=made.covered_mass,
            judge_overall=made.judge_overall,
            notes=[*ran.notes, *made.notes],
        )
        return Evaluated(assessment, [*ran.usages, *made.usages], made.retries)

    async def _run_cases(self, prompt: Prompt, run_index: int) -> CaseRun:
        if prompt.type != "prompt_yaml":
            return _NO_CASES
        try:
            file = parse_prompt_yaml(prompt.text, prompt.path)
        except UnfitPrompt as error:
            raise EvaluationFailed(error.code, error.message) from None
        ran = await run_cases(file, self._model, self._model, self._load, run_index)
        if file.model is None or file.model.endswith(self.facts.name):
            return ran
        note = f"the cases were run by {self.facts.name}, not by the file's model {file.model}"
        return msgspec.structs.replace(ran, notes=[*ran.notes, note])


def _settings(settings: EvaluationSettings, provider: str) -> JudgeSettings:
    tier = settings.tier
    made = JudgeSettings(
        samples=tier.samples,
        one_call=tier.one_call,
        temperature=0.0 if settings.runs == 1 else REPEATED_TEMPERATURE,
    )
    known = OLLAMA_INPUT_TOKENS if provider == "ollama" else made.max_input_tokens
    return msgspec.structs.replace(made, max_input_tokens=tier.max_input_tokens or known)


def load_judges(models: ModelPool, settings: EvaluationSettings) -> list[Judge]:
    """The judges of a tier, each model once; with one that cannot be asked, every result fails."""
    # A cassette must hold all that an evaluation asks, so nothing comes from another store.
    steps = MemorySteps() if models.cassette else FileSteps(default_path())
    judges: dict[str, Judge] = {}
    for name in settings.tier.models:
        try:
            parsed = models.name(name)
        except BadInput as error:
            reason = Failure("unavailable_model", str(error))
            judges.setdefault(name, UnavailableJudge(ModelFacts(name, "unknown"), reason))
            continue
        if str(parsed) not in judges:
            facts = ModelFacts(parsed.model, parsed.provider)
            judges[str(parsed)] = _judge(str(parsed), facts, models, settings, steps)
    return list(judges.values())


def _judge(
    name: str, facts: ModelFacts, models: ModelPool, settings: EvaluationSettings, steps: StepStore
) -> Judge:
    try:
        model = models.load(name)
    except MissingKey as error:
        return UnavailableJudge(facts, Failure("permission_denied", str(error)))
    except BadInput as error:
        return UnavailableJudge(facts, Failure("unavailable_model", str(error)))
    return PromptJudge(model, facts, settings, steps, models.load)


class UnavailableJudge(msgspec.Struct):
    """A model that cannot be asked."""

    facts: ModelFacts
    reason: Failure

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:  # noqa: ARG002
        """Raise `EvaluationFailed`, which says why."""
        raise EvaluationFailed(self.reason.code, self.reason.message)
