# Every target sets up what it needs in .venv, once. PYTHON=... chooses the interpreter, JOBS=... the number of test processes.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
PYTHON ?=
PRESET ?= quick
RESULTS ?= docs/figures

JAVA = $(BIN)/python -c 'import sys; from matchwood.spark.session import java_problem; sys.exit(java_problem())'

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test bounds check bench report stress kafka docs clean

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 - \2/p' Makefile

demo: $(VENV)/.dev ## a day in a seeded city on local Spark: ingest, index, match, evaluate, and a report to look at
	@$(JAVA)
	$(BIN)/matchwood demo

test: $(VENV)/.dev ## run all tests but the stress tests
	@$(JAVA) || echo "tests of the pipeline are skipped" >&2
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

check: $(VENV)/.dev ## lint, format, types, layers: what CI runs before the tests
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

# The tests that between them run every kernel; seeds and examples are fewer there (tests/conftest.py).
KERNEL_TESTS = tests/index/test_contract.py tests/index/test_event_contract.py tests/index/test_comparison_systems.py \
    tests/index/test_live_events.py tests/index/ranked tests/kernels/test_store.py tests/kernels/test_event_store.py tests/kernels/test_ordering.py tests/kernels/test_intrinsics.py tests/index/test_batches.py tests/index/test_workers.py \
    tests/covering

bounds: $(VENV)/.dev ## run every kernel with its array bounds checked
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(KERNEL_TESTS)

INPUTS ?= 1000000

stress: $(VENV)/.dev ## run the long random tests, and a million damaged inputs (INPUTS=...)
	$(BIN)/python -m pytest -n $(JOBS) -m stress
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS) --jobs $(JOBS)

bench: $(VENV)/.bench ## measure against the baselines; PRESET=paper for the papers' sizes; goes on where it stopped
	$(BIN)/python -m bench all --preset $(PRESET)

report: $(VENV)/.bench ## docs/performance.md and its plots from the kept figures; RESULTS=folder for others; measures nothing
	$(BIN)/python -m bench.plots --results $(RESULTS)
	$(BIN)/python -m bench.performance --results $(RESULTS)

docs: $(VENV)/.docs ## the documentation and the API reference as a site: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open build/site/index.html (its search needs a server: $(BIN)/python -m http.server --directory build/site)"

clean: ## remove .venv and everything that was made
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

kafka: $(VENV)/.dev ## run the streaming test with a real Kafka broker; needs Maven, which brings the broker and the connector
	@command -v mvn >/dev/null 2>&1 || { echo "make kafka needs Maven (mvn) on the path: it fetches Kafka and Spark's connector from Maven Central" >&2; exit 1; }
	@$(JAVA)
	$(BIN)/python -m pytest -n 0 -m kafka tests/spark

# An installation is complete only when its stamp is there: one that was cut short is taken up again.
$(VENV)/.dev: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark,bench]'
	@touch $@

$(VENV)/.docs: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

# Candidates are run, not only looked up: a version manager's stand-in may exist without the version behind it.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
$(VENV)/.created:
	@set -e; \
	if $(BIN)/python -c '$(SUITABLE)' 2>/dev/null; then touch $@; exit; fi; \
	for python in $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3 python); do \
	    if "$$python" -c '$(SUITABLE)' 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	    echo "Matchwood needs Python 3.11, 3.12 or 3.13 and found none$(if $(PYTHON), in PYTHON=$(PYTHON)); say where it is: make PYTHON=/path/to/python" >&2; exit 1; \
	fi; \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$found lacks the venv module; install it (on Debian and Ubuntu: the package python3-venv) or choose another: make PYTHON=..." >&2; exit 1; \
	fi; \
	echo "setting up $(VENV) with $$found ($$("$$found" -V))"; \
	"$$found" -m venv --clear $(VENV); \
	touch $@
