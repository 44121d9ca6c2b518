# Everything a newcomer needs: `make demo`, then `make test`. Only Python >= 3.11 and make are assumed.
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
BIN := .venv/bin
SYNC = $(UV) sync --quiet --locked --compile-bytecode --python $(PYTHON)

.PHONY: help setup demo demo-model test test-model test-ray soak lint types format bench bench-old bench-old-short bench-compare bench-signals bench-models bench-prompts bench-host bench-load bench-log bench-scale bench-rows bench-conversations bench-checks bench-chance bench-evidence bench-page bench-web mutants walk docs coverage clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Evalwright needs Python >= 3.11; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet uv

# The second try is for networks whose certificates only the system knows.
.venv/.ready: pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	@$(SYNC) 2>.venv-problem || UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(SYNC) 2>/dev/null \
	  || { cat .venv-problem >&2; rm -f .venv-problem; exit 2; }
	@rm -f .venv-problem
	@$(BIN)/python -m compileall -q src  # commands start sooner, also where Python may not write bytecode
	@touch $@

setup: .venv/.ready ## prepare .venv with the evalwright command in it

demo: setup ## run the bundled suites against the bundled agents
	@$(BIN)/evalwright demo

# The local model has a separate environment: 190 MB that no other target needs.
MODEL_SYNC = UV_PROJECT_ENVIRONMENT=.venv-model $(SYNC) --group real-model

.venv-model/.ready: pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	@$(MODEL_SYNC) 2>.venv-problem || UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(MODEL_SYNC) 2>/dev/null \
	  || { cat .venv-problem >&2; rm -f .venv-problem; exit 2; }
	@rm -f .venv-problem
	@touch $@

demo-model: .venv-model/.ready ## run a suite with a small model on this machine, as agent and as judge (installs 190 MB)
	@.venv-model/bin/evalwright demo --local

test-model: .venv-model/.ready ## try judges, agents, G-Eval and attacks with a real small model, which takes two minutes
	.venv-model/bin/pytest -n 0 tests/real_model \
	  'tests/docs/test_docs_examples.py::test_a_page_does_what_it_says[docs/local-model.md]'

# As separate as the model: 240 MB that no other target needs.
RAY_SYNC = UV_PROJECT_ENVIRONMENT=.venv-ray $(SYNC) --group ray-cluster

.venv-ray/.ready: pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	@$(RAY_SYNC) 2>.venv-problem || UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(RAY_SYNC) 2>/dev/null \
	  || { cat .venv-problem >&2; rm -f .venv-problem; exit 2; }
	@rm -f .venv-problem
	@touch $@

test-ray: .venv-ray/.ready ## try `signals` and `compare` on a real Ray cluster of this machine (installs 240 MB)
	.venv-ray/bin/pytest -n 0 tests/real_ray

test: setup ## run every test
	@$(BIN)/python -m compileall -q src  # what has changed since, too: hundreds of tests start a command
	$(BIN)/pytest -n 3 --dist worksteal

SOAKED = tests/faults tests/host/attacks tests/host/limits tests/host/deployments/test_deployment_approvals.py \
  tests/agents/test_isolated_agents.py tests/cli/test_stubborn_agents.py tests/engine/suites/test_templates.py \
  tests/store/test_full_disk.py

soak: setup ## inject every kind of fault, then further seeds, within SOAK_MINUTES (10): kills, full disks, held locks, hostile clients and agents
	SOAK=1 $(BIN)/pytest -n 3 --maxschedchunk 1 $(SOAKED)

lint: setup ## check formatting, lint rules, types, and which package may import which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/typed_examples.py

# As separate as the model: 280 MB that no other target needs.
TYPES_SYNC = UV_PROJECT_ENVIRONMENT=.venv-types $(UV) sync --quiet --locked --python $(PYTHON) --only-group types

types: setup ## check the examples on the pages about Python with mypy and with pyright (installs 280 MB)
	@$(TYPES_SYNC) 2>.venv-problem || UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(TYPES_SYNC) 2>/dev/null \
	  || { cat .venv-problem >&2; rm -f .venv-problem; exit 2; }
	@rm -f .venv-problem
	$(BIN)/python tools/typed_examples.py --pyright

format: setup ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## measure next to inspect-ai and pydantic-evals (installs both)
	$(BIN)/python benchmarks/bench.py

bench-old: setup ## measure users' jobs beside the last tag, by turns: CPU of both, and the ratio (OLD=commit)
	$(BIN)/python benchmarks/old/bench.py $(if $(OLD),--old $(OLD))

bench-old-short: setup ## the same on small jobs, within a minute; fails where one costs more than 1.25 times
	$(BIN)/python benchmarks/old/bench.py --short $(if $(OLD),--old $(OLD))

bench-compare: setup ## measure a comparison of 10,000 and 100,000 cases
	$(BIN)/python benchmarks/compare/bench.py --cases 10000 --large 100000

bench-scale: setup ## measure log, workers, hosts and scans with PostgreSQL, beside Dask (installs it)
	$(BIN)/python benchmarks/scale/bench.py

bench-signals: setup ## measure the signals on your labelled traces (TRACES=dir), each figure beside its goal
	$(BIN)/python benchmarks/signals/bench.py $(TRACES)

bench-models: setup ## measure model calls, judges and the tool loop
	$(BIN)/python benchmarks/models/bench.py
	$(BIN)/python benchmarks/judging/bench.py
	$(BIN)/python benchmarks/tool_loop/bench.py

bench-prompts: setup ## measure prompteval: judged at concurrency 8, the linter's speed, how right it is (WILD=dir)
	$(BIN)/python benchmarks/prompteval_judge/bench.py
	$(BIN)/python benchmarks/prompteval_lint/bench.py
	$(BIN)/python benchmarks/prompteval_lint/bench.py --files 10000 --repeat 1
	$(BIN)/python benchmarks/prompteval_lint/page.py
	$(BIN)/python benchmarks/prompteval_rules/bench.py $(WILD)

bench-chance: setup ## measure how often a pair of runs is called worse, or better, beyond chance
	$(BIN)/python benchmarks/chance/bench.py

bench-evidence: setup ## measure what `power` and `mutants` promise: predictions beside simulations, false alarms, time
	$(BIN)/python benchmarks/evidence/bench.py

bench-host: setup ## measure the host: creates, reads, streams, runs in flight
	$(BIN)/python benchmarks/host/bench.py

bench-load: setup ## measure what hostile clients of a host do to the others
	$(BIN)/python benchmarks/host/hostile.py

bench-checks: setup ## measure checks: each alone, on hostile outputs, and in a run of 10,000 tasks
	$(BIN)/python benchmarks/checks/bench.py

bench-page: setup ## measure the page of a run of 10,000 tasks: CPU, size, first view
	$(BIN)/python benchmarks/run_page/bench.py

bench-web: setup ## measure the pages next to Inspect View and promptfoo view (installs them) on 10,000 samples
	$(BIN)/python benchmarks/web/bench.py

bench-log: setup ## measure the log by weight (large suites) and by length (10 million events, 4 GB of disk)
	$(BIN)/python benchmarks/host/log_size.py

bench-rows: setup ## measure rows of a CSV file becoming tasks: CPU, and memory of 100,000 beside 10,000
	$(BIN)/python benchmarks/rows/bench.py

bench-conversations: setup ## measure conversations with a world beside as many single questions
	$(BIN)/python benchmarks/conversations/bench.py

mutants: setup ## change 400 sampled places in the code and list the changes that no test notices (takes an hour)
	$(BIN)/python tools/mutants.py --workers 2

walk: setup ## print every function that a golden task, a compared case and a prompt pass through
	$(BIN)/python tools/walk.py

# The generator has a separate environment: nothing else needs its 90 MB.
DOCS_SYNC = UV_PROJECT_ENVIRONMENT=.venv-docs $(UV) sync --quiet --locked --only-group docs --python $(PYTHON)

.venv-docs/.ready: pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	@$(DOCS_SYNC) 2>.venv-problem || UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(DOCS_SYNC) 2>/dev/null \
	  || { cat .venv-problem >&2; rm -f .venv-problem; exit 2; }
	@rm -f .venv-problem
	@touch $@

docs: .venv-docs/.ready ## build docs/ as a static site with search, every link followed
	.venv-docs/bin/python tools/site/build.py

# Two tests cannot pass: of what a command imports, because every command then imports the coverage tool, and of a disk
# without room, because the figures are written to it too.
coverage: setup ## run every test and report the lines and branches they reach, also in .coverage-html
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term --cov-report=html \
	  --deselect tests/cli/test_help.py::test_nothing_heavy_is_imported_for \
	  --deselect tests/comparison/test_hostile_runs.py::test_no_room_to_unpack_traces_is_no_fault_of_the_input

clean: ## remove everything that the other targets created
	rm -rf .venv .venv-docs .venv-model .venv-ray .venv-types .uv .site .coverage .coverage.* .coverage-html benchmarks/.envs benchmarks/results
