# Each target works from a bare checkout with Python 3.11+ and make: the virtual environment is made on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
WARM   := $(VENV)/.kernels-compiled

.DEFAULT_GOAL := help
.PHONY: help demo test test-deep bench bench-spark experiments lint docs clean

help:  ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Eddyline needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.11 …" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "setting up, once. Step 1 of 3: making the virtual environment $(VENV) (some seconds)"
	@$(PYTHON) -m venv $(VENV)
	@echo "step 2 of 3: fetching and installing packages, PySpark (400 MB) the largest (minutes on a slow line)"
	@$(BIN)/python tools/install.py --editable '.[dev]'
	@touch $@

$(WARM): $(STAMP) $(wildcard src/eddyline/kernels/*.py)
	@echo "step 3 of 3: compiling the kernels (once, and again when they change; half a minute, longer on a busy machine)"
	@$(BIN)/eddyline warm
	@touch $@

demo: $(WARM)  ## a real job on a generated packet stream
	@$(BIN)/python -m eddyline.demo

test: $(WARM)  ## lint, types, all tests and doctests (those of the Spark runtime need Java)
	@$(BIN)/python -m eddyline.spark.requirements
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-logo --no-cache > /dev/null || $(BIN)/lint-imports
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -n 2 --dist loadfile
	@NUMBA_DISABLE_JIT=1 EDDYLINE_CASES=0.05 $(BIN)/python -m pytest -q tests/semantics tests/kernels

test-deep: $(WARM)  ## the semantics tests with at least 5,000 random cases, and some 40 kills on Spark
	@EDDYLINE_CASES=20 $(BIN)/python -m pytest -s tests/semantics tests/spark/kills

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

clean:  ## remove the virtual environment and built files
	rm -rf $(VENV) site dist build
