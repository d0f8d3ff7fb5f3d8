# Every target installs what it needs into .venv, once. PYTHON=... selects the interpreter, JOBS=... the number of test processes.

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

.PHONY: help demo test bounds check bench report stress soak kafka objectstores docs wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 - \2/p' Makefile

demo: $(VENV)/.dev ## run the pipeline on a generated city, on local Spark (needs Java); writes build/demo/report.html, takes a few minutes
	@$(JAVA)
	$(BIN)/matchwood demo

test: $(VENV)/.dev ## run all tests except the stress tests
	@$(JAVA) || echo "the tests of the Spark pipeline are skipped" >&2
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

check: $(VENV)/.dev ## check lint, format, types and layers; CI runs this before the tests
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

# Together these tests run every kernel. With bounds checks they use fewer seeds and examples (tests/conftest.py).
KERNEL_TESTS = tests/index/test_contract.py tests/index/test_event_contract.py tests/index/test_comparison_systems.py \
    tests/index/test_live_events.py tests/index/test_postings.py tests/index/ranked tests/kernels/test_store.py tests/kernels/test_event_store.py tests/kernels/test_ordering.py tests/kernels/test_intrinsics.py tests/index/test_batches.py \
    tests/covering

bounds: $(VENV)/.dev ## run every kernel with array bounds checked
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(KERNEL_TESTS)

INPUTS ?= 1000000

stress: $(VENV)/.dev ## run the long random tests, and a million damaged inputs (INPUTS=...)
	$(BIN)/python -m pytest -n $(JOBS) -m stress
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS) --jobs $(JOBS)

MINUTES ?= 60

soak: $(VENV)/.dev ## run a broker at moderate load for an hour (MINUTES=...); fails if its memory, files or journal grow
	$(BIN)/python -m tests.broker.soak --minutes $(MINUTES)

bench: $(VENV)/.bench ## measure against the baselines; PRESET=paper for the sizes of the papers; resumes where it stopped
	$(BIN)/python -m bench all --preset $(PRESET)

report: $(VENV)/.bench ## write docs/performance.md, its plots and the table of the README from docs/figures (RESULTS=...); measures nothing
	$(BIN)/python -m bench.plots --results $(RESULTS)
	$(BIN)/python -m bench.performance --results $(RESULTS)

docs: $(VENV)/.docs ## build the documentation and the API reference as a site: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open build/site/index.html (its search needs a server: $(BIN)/python -m http.server --directory build/site)"

# The kernels are compiled for a processor level that nearly every x86-64 server has (jit/prebuilt.py), and then used where
# compiling is made to fail.
wheel: $(VENV)/.dev ## build and check a wheel with compiled kernels, for this Python on Linux x86-64: dist/*.whl; takes some minutes
	rm -rf build/kernels build/wheel
	NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=build/kernels MATCHWOOD_KERNELS=0 $(BIN)/matchwood warm --all
	MATCHWOOD_BUILD_KERNELS=build/kernels/matchwood $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(BIN)/python -m venv --clear build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet build/wheel/*.whl
	build/wheel/venv/bin/python -I tests/wheel.py
	mkdir -p dist && mv build/wheel/*.whl dist/
	@ls dist/*linux_x86_64.whl

clean: ## remove .venv and all build products
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

kafka: $(VENV)/.dev ## run the tests of streaming and of the broker with Kafka; needs Maven, which downloads the broker and the connector
	@command -v mvn >/dev/null 2>&1 || { echo "make kafka needs Maven (mvn) on the PATH: it downloads Kafka and Spark's connector from Maven Central" >&2; exit 1; }
	@$(JAVA)
	$(BIN)/python -m pytest -n 0 -m kafka tests/spark tests/broker

objectstores: $(VENV)/.dev ## run the pipeline on S3 and HDFS with Spark's own connectors; needs Maven, which downloads 800 MB
	@command -v mvn >/dev/null 2>&1 || { echo "make objectstores needs Maven (mvn) on the PATH: it downloads hadoop-aws and an HDFS mini cluster from Maven Central" >&2; exit 1; }
	@$(JAVA)
	$(BIN)/python -m pytest -n 0 -m objectstore tests/spark

# The stamp is written last, so that an interrupted installation is repeated.
$(VENV)/.dev: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark,bench]'
	@touch $@

$(VENV)/.docs: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

# Candidates are run, not only looked up: a version manager's shim may exist without the version behind it.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
$(VENV)/.created:
	@set -e; \
	if $(BIN)/python -c '$(SUITABLE)' 2>/dev/null; then touch $@; exit; fi; \
	for python in $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3 python); do \
	    if "$$python" -c '$(SUITABLE)' 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	    echo "Matchwood needs Python 3.11, 3.12 or 3.13 and found none$(if $(PYTHON), at PYTHON=$(PYTHON)); name one: make PYTHON=/path/to/python" >&2; exit 1; \
	fi; \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$found lacks the venv module; install it (on Debian and Ubuntu: the package python3-venv) or choose another: make PYTHON=..." >&2; exit 1; \
	fi; \
	echo "setting up $(VENV) with $$found ($$("$$found" -V))"; \
	"$$found" -m venv --clear $(VENV); \
	touch $@
