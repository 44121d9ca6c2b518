"""Models as judges of prompts: by G-Eval, and a `.prompt.yml` by its own cases too."""

import msgspec

from evalwright.contracts.errors import BadInput, MissingExtra, MissingKey
from evalwright.contracts.prompt_result import ErrorCode, ModelFacts
from evalwright.engine.session import ModelPool
from evalwright.models.protocol import Model
from evalwright.prompts.cases import CaseRun, Models, load_named, run_cases
from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.evaluate import EvaluationSettings
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.geval.judgement import GEval, JudgeSettings
from evalwright.prompts.geval.steps import FileSteps, MemorySteps, StepStore, default_path
from evalwright.prompts.judged import Evaluated, PanelJudge
from evalwright.prompts.prompt_yaml import parse_prompt_yaml
from evalwright.prompts.results import Assessment, Failure
from evalwright.prompts.tiers import standing

# Ollama silently cuts what is longer than its context, which is 4096 tokens unless configured.
# A local model has a context of 8192, and our estimate of tokens is rather too high.
INPUT_TOKENS = {"ollama": 4_000, "local": 7_000}
REPEATED_TEMPERATURE = 0.7  # at 0, repeats would show less noise than there is

_NO_CASES = CaseRun([], [], [])


class PromptJudge:
    """Judges prompts with one model; the cases of a `.prompt.yml` run on the model it names."""

    def __init__(
        self,
        model: Model,
        facts: ModelFacts,
        settings: EvaluationSettings,
        steps: StepStore,
        models: Models,
    ) -> None:
        tier = settings.tier
        made = JudgeSettings(
            samples=tier.samples,
            one_call=tier.one_call,
            temperature=0.0 if settings.runs == 1 else REPEATED_TEMPERATURE,
        )
        known = INPUT_TOKENS.get(facts.provider, made.max_input_tokens)
        judge_settings = msgspec.structs.replace(
            made, max_input_tokens=tier.max_input_tokens or known
        )
        self._model = model
        self._geval = GEval(model, steps, judge_settings)
        self._models = models
        self._notes = settings.tier.notes
        parameters = {
            "temperature": judge_settings.sampling_temperature,
            "samples": judge_settings.samples,
        }
        self.facts = msgspec.structs.replace(facts, parameters=parameters)

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:
        ran = await self._run_cases(prompt, run_index)
        try:
            made = await self._geval.judge(prompt, run_index)
        except EvaluationFailed as failed:
            usages, retries = [*ran.usages, *failed.usages], ran.retries + failed.retries
            raise EvaluationFailed(failed.code, failed.message, usages, retries) from None
        assessment = Assessment(
            rubric={name: (each.score, each.reasoning) for name, each in made.criteria.items()},
            summary=made.summary,
            structural=None,
            cases=ran.cases,
            method=made.method,
            covered_mass=made.covered_mass,
            judge_overall=made.judge_overall,
            notes=[*self._notes, *ran.notes, *made.notes],
        )
        return Evaluated(assessment, [*ran.usages, *made.usages], ran.retries + made.retries)

    async def _run_cases(self, prompt: Prompt, run_index: int) -> CaseRun:
        if prompt.type != "prompt_yaml":
            return _NO_CASES
        try:
            file = parse_prompt_yaml(prompt.text, prompt.path)
        except UnfitPrompt as error:
            raise EvaluationFailed(error.code, error.message) from None
        subject = self._model
        if file.model is not None and file.rows:
            where = f"{file.source}: model {file.model}"
            offered = load_named(self._models, file.model, where)
            if offered is None:
                message = (
                    f"{where}: GitHub Models is retired, and nobody else who offers it is "
                    "configured; set OPENAI_API_KEY or OPENROUTER_API_KEY, set "
                    "GITHUB_MODELS_BASE_URL to a server that runs it, or name another model in "
                    "the file"
                )
                raise EvaluationFailed("unavailable_model", message)
            subject = offered
        ran = await run_cases(file, subject, self._model, self._models, run_index)
        if not file.rows or subject.name == file.model:
            return ran
        named = f"the file names {file.model}" if file.model else "the file names no model"
        note = f"the cases were run by {subject.name} ({named})"
        return msgspec.structs.replace(ran, notes=[*ran.notes, note])


def load_judges(models: ModelPool, settings: EvaluationSettings) -> list[PanelJudge]:
    """The judges of a tier, each model once; with one that cannot be asked, every result fails."""
    # A cassette must hold all that an evaluation asks, so nothing comes from another store.
    steps = MemorySteps() if models.cassette else FileSteps(default_path())
    asked = settings.tier.models
    tier = standing(settings.tier, models)
    settings = msgspec.structs.replace(settings, tier=tier)
    for note in tier.notes:
        models.notify(note)
    if not tier.models:
        reason = Failure("unavailable_model", tier.notes[0])
        gone = map(models.name, asked)
        return [UnavailableJudge(ModelFacts(each.model, each.provider), reason) for each in gone]

    def find(name: str) -> Model | None:
        """A model that a file names, from another provider where its own is no more."""
        found = models.standing(name)
        return None if found is None else models.load(str(found))

    judges: dict[str, PanelJudge] = {}
    for name in tier.models:
        try:
            parsed = models.name(name)
        except BadInput as error:
            reason = Failure("unavailable_model", str(error))
            judges.setdefault(name, UnavailableJudge(ModelFacts(name, "unknown"), reason))
            continue
        full = str(parsed)
        if full in judges:
            continue
        facts = ModelFacts(parsed.model, parsed.provider)
        try:
            model = models.load(full)
        except MissingExtra:
            raise  # nothing is to be recorded of what takes one command to mend
        except BadInput as error:
            code: ErrorCode = (
                "permission_denied" if isinstance(error, MissingKey) else "unavailable_model"
            )
            judges[full] = UnavailableJudge(facts, Failure(code, str(error)))
        else:
            judges[full] = PromptJudge(model, facts, settings, steps, find)
    return list(judges.values())


class UnavailableJudge(msgspec.Struct):
    """A model that cannot be asked."""

    facts: ModelFacts
    reason: Failure

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:  # noqa: ARG002
        raise EvaluationFailed(self.reason.code, self.reason.message)
