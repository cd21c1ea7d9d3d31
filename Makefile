# Each target works from a bare checkout with Python 3.11+ and make: the virtual environment is made on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
WARM   := $(VENV)/.kernels-compiled
LOCK   := requirements-dev.lock
SHORT  := .venv-short
# How many times the usual number of random cases make test-deep draws.
CASES  ?= 5

.DEFAULT_GOAL := help
.PHONY: help demo serve page test test-short test-deep bench bench-spark experiments lint docs lock clean

help:  ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The lock holds versions for one Python; with another the ranges of pyproject.toml decide.
FITS := -c 'import re, sys; lock = open("$(LOCK)").read(); found = re.search(r"Python (\d+)\.(\d+)", lock); print("--constraint $(LOCK)" if tuple(map(int, found.groups())) == sys.version_info[:2] else "")'

$(STAMP): pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit("Eddyline needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.11 …" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "setting up, once. Step 1 of 3: making the virtual environment $(VENV) (some seconds)"
	@$(PYTHON) -m venv $(VENV)
	@echo "step 2 of 3: fetching and installing packages, PySpark (400 MB) the largest (minutes on a slow line)"
	@$(BIN)/python tools/install.py $$($(BIN)/python $(FITS)) --editable '.[dev]'
	@touch $@

$(WARM): $(STAMP) $(wildcard src/eddyline/kernels/*.py)
	@echo "step 3 of 3: compiling the kernels (once, and again when they change; a minute, longer on a busy machine)"
	@$(BIN)/eddyline warm
	@touch $@

demo: $(WARM)  ## a real job on a generated packet stream
	@$(BIN)/python -m eddyline.demo

serve: $(WARM)  ## the server with a demo stream: open the address that it prints (Ctrl-C stops it; ARGS=--new-token)
	@$(BIN)/eddyline serve --demo --state build/serve $(ARGS)

page: $(STAMP)  ## build the server's page after a change in web/ (with the Node of the extra dev)
	@$(BIN)/python tools/build_page.py

test: $(WARM)  ## lint, types, documentation, all tests and doctests (without Java: all but those of Spark)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-logo --no-cache > /dev/null || $(BIN)/lint-imports
	@$(BIN)/mypy
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site
	@$(BIN)/python -m pytest -n 2 --dist loadfile
	@NUMBA_DISABLE_JIT=1 EDDYLINE_CASES=0.05 $(BIN)/python -m pytest -n 2 -q tests/kernels tests/semantics/test_against_reference.py tests/semantics/test_pinned.py tests/semantics/test_long_joins.py

test-short:  ## with another Python, some minutes: make test-short PYTHON=python3.12 (import, doctests, few random cases)
	@$(PYTHON) -m venv $(SHORT)
	@$(SHORT)/bin/pip install --quiet --disable-pip-version-check --editable '.[server,shell]' pytest hypothesis duckdb matplotlib 'pandas>=2.2,<3'
	@$(SHORT)/bin/python -c 'import sys, eddyline; print("Python %d.%d, eddyline" % sys.version_info[:2], eddyline.__version__)'
	@EDDYLINE_COMPILE= $(SHORT)/bin/python -m pytest -q src/eddyline --ignore=src/eddyline/spark --ignore=src/eddyline/server/spark_service.py
	@EDDYLINE_COMPILE= EDDYLINE_CASES=0.1 $(SHORT)/bin/python -m pytest -q tests/semantics/test_against_reference.py tests/semantics/test_pinned.py

test-deep: $(WARM)  ## the random tests with 15,000 cases and more, some 40 kills on Spark and 20 of a server (CASES=20: four times as many)
	@EDDYLINE_CASES=$(CASES) $(BIN)/python -m pytest -n 2 --dist loadfile -rP --durations=30 tests/semantics tests/adapting tests/models tests/spark/kills tests/server
	@NUMBA_DISABLE_JIT=1 EDDYLINE_CASES=0.05 $(BIN)/python -m pytest -n 2 --dist loadfile -q tests/semantics

bench: $(WARM)  ## ratios against DuckDB and against the bare kernel, in one run
	@$(BIN)/python -m benchmarks.run

bench-spark: $(WARM)  ## ratios of Spark's own operators to ours, in one run
	@$(BIN)/python -m benchmarks.spark.run

experiments: $(WARM)  ## the papers' figures and tables again, on one page; about half an hour (build/experiments/index.html)
	@$(BIN)/python -m experiments.run

lint: $(STAMP)  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy

docs: $(STAMP)  ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "site/index.html"

lock: $(STAMP)  ## write the versions that are installed into requirements-dev.lock
	@head -n 2 $(LOCK) > $(LOCK).part
	@$(BIN)/pip freeze --exclude-editable >> $(LOCK).part && mv $(LOCK).part $(LOCK)

clean:  ## remove the virtual environment and built files
	rm -rf $(VENV) $(SHORT) site dist build
