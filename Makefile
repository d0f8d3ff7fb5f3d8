# Every target sets up what it needs in .venv, once. PYTHON=... chooses the interpreter, JOBS=... the number of test processes.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
PYTHON ?=
PRESET ?= quick

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test check bench stress docs clean

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 - \2/p' Makefile

demo: $(VENV)/.dev ## show matching and ranking on a small example
	$(BIN)/matchwood demo

test: $(VENV)/.dev ## run all tests but the stress tests
	$(BIN)/python -m pytest -n $(JOBS)

check: $(VENV)/.dev ## lint, format, types, layers: what CI runs before the tests
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

stress: $(VENV)/.dev ## run the long random tests
	$(BIN)/python -m pytest -n $(JOBS) -m stress

bench: $(VENV)/.bench ## measure against the baselines; PRESET=paper for the papers' sizes
	@mkdir -p build
	$(BIN)/python -m bench all --preset $(PRESET) --out build/bench.json

docs: ## where to read
	@echo "Read README.md, ARCHITECTURE.md and docs/ as they are; nothing has to be built."

clean: ## remove .venv and everything that was made
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An installation is complete only when its stamp is there: one that was cut short is taken up again.
$(VENV)/.dev: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
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
