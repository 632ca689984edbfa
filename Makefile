# Everything is set up from Python >= 3.11 and make alone, in virtual environments beside this file,
# and only when something has changed.
#   make run            the demo
#   make test           all checks and the quick tests
#   make test-all       the slow tests too
#   make test-matrix    the tests on Python 3.12 with newer jaxlibs
#   make bench          speed beside JAX 0.10.2
#   make bench-corpus   the corpus of programs beside JAX 0.12.0.1
#   make bench-ops      time of each operation beside JAX
#   make accuracy       errors of functions in ulp
#   make conformance    JAX's published tests, where they are laid out
#   make docs           the documentation site
#   make mutants        changes to the library that tests must notice; drawn by chance in a room:
#                       ROOM=lax/_sorting.py, or ROOM=random
#   make lint, format, clean

SHELL := /bin/bash
.DEFAULT_GOAL := help

find_python = $(shell for p in $(1); do \
    "$$p" -c 'import ensurepip, sys; sys.exit(sys.version_info < $(2))' 2>/dev/null \
    && echo "$$p" && break; done)

PYTHON ?= $(call find_python,python3.11 python3.12 python3,(3, 11))
# A pyenv shim of a version that is installed but not active does not run, hence also the paths of
# pyenv's versions.
PYENV312 := $(sort $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python))
PYTHON312 ?= $(call find_python,python3.12 $(PYENV312),(3, 12))
JAXLIBS := 0.11.2 0.12.x
WORKERS ?= 2

BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
PYTEST_QUICK := pytest -n $(WORKERS) -q -m "not slow"
SETUP_INPUTS := pyproject.toml Makefile

.PHONY: help setup run test test-all test-matrix bench bench-corpus bench-ops accuracy conformance \
    docs mutants lint format clean

need_python = @test -n "$(PYTHON)" || { echo "No Python >= 3.11 found. Install one," \
    "or name it: make PYTHON=/path/to/python" >&2; exit 1; }
need_python312 = @test -n "$(PYTHON312)" || { echo "No Python 3.12 found, which newer jaxlibs" \
    "need. Install it with 'pyenv install 3.12', or name it:" \
    "make PYTHON312=/path/to/python3.12" >&2; exit 1; }

help:
	@sed -n '3,15s/^#   //p' Makefile

setup: .venv/.installed

.venv/.installed: $(SETUP_INPUTS)
	$(need_python)
	"$(PYTHON)" -m venv .venv
	$(BIN)/python $(PIP_INSTALL) -e '.[cli,demo,viz,test]'
	@touch $@

run: .venv/.installed
	$(BIN)/teucer demo

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

test: lint
	$(BIN)/$(PYTEST_QUICK)

test-all: lint
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(BIN)/pytest -n $(WORKERS) -q

test-matrix: $(JAXLIBS:%=.venv-jaxlib-%/.installed)
	@set -e; for version in $(JAXLIBS); do echo "== jaxlib $$version"; \
	    .venv-jaxlib-$$version/bin/$(PYTEST_QUICK); done

.venv-jaxlib-%/.installed: $(SETUP_INPUTS)
	$(need_python312)
	"$(PYTHON312)" -m venv .venv-jaxlib-$*
	.venv-jaxlib-$*/bin/python $(PIP_INSTALL) -e '.[test]' 'jaxlib==$(subst x,*,$*)'
	@touch $@

# JAX and Teucer cannot share a process, and JAX is not a dependency: it lives in an environment of
# its own.
.venv-jax/.installed: $(SETUP_INPUTS)
	$(need_python)
	"$(PYTHON)" -m venv .venv-jax
	.venv-jax/bin/python $(PIP_INSTALL) 'jax==0.10.2' 'jaxlib==0.10.2'
	@touch $@

docs: .venv/.docs-installed
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

.venv/.docs-installed: .venv/.installed
	$(BIN)/python $(PIP_INSTALL) -e '.[docs]'
	@touch $@

# The first draw notes which tests come by which lines: that takes as long as the quick tests in one
# process.
mutants: .venv-jaxlib-0.12.x/.installed
	.venv-jaxlib-0.12.x/bin/python tools/mutants.py $(ROOM) $(if $(ROOM),-n $(or $(NUMBER),8))

bench: .venv/.installed .venv-jax/.installed
	$(BIN)/python benchmarks/compare.py --jax .venv-jax/bin/python --teucer $(BIN)/python $(BENCH_ARGS)

.venv-jax-0.12/.installed: $(SETUP_INPUTS)
	$(need_python312)
	"$(PYTHON312)" -m venv .venv-jax-0.12
	.venv-jax-0.12/bin/python $(PIP_INSTALL) 'jax==0.12.0.1' 'jaxlib==0.12.0.1'
	@touch $@

# Half an hour on an idle machine. JAX_PYTHON names another JAX.
bench-corpus: .venv-jaxlib-0.12.x/.installed $(if $(JAX_PYTHON),,.venv-jax-0.12/.installed)
	.venv-jaxlib-0.12.x/bin/python benchmarks/corpus/compare.py \
	    --jax $(or $(JAX_PYTHON),.venv-jax-0.12/bin/python) \
	    --teucer .venv-jaxlib-0.12.x/bin/python $(BENCH_ARGS)

# Largest errors in ulp beside JAX's, as benchmarks/notes/accuracy.md has them; ARGS="--all erfc"
# for all inputs of a function.
accuracy: .venv/.installed .venv-jax/.installed
	$(BIN)/python benchmarks/accuracy.py --jax .venv-jax/bin/python $(ARGS)

# Time of each operation beside JAX's; ARGS="--sizes 10 100000 sort cumsum" for some.
bench-ops: .venv/.installed .venv-jax/.installed
	$(BIN)/python benchmarks/operations.py --jax .venv-jax/bin/python $(ARGS)

# JAX's published tests, where tools/conformance/get_tests.sh has laid them out; about an hour.
JAX_TESTS ?= ../JAX_TESTS
conformance: .venv/.installed
	$(BIN)/python $(PIP_INSTALL) absl-py hypothesis mpmath pillow portpicker cloudpickle flatbuffers \
	    filelock matplotlib
	$(BIN)/python tools/conformance/habit.py $(JAX_TESTS) $(FILES)

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-jax .venv-jax-0.12 .venv-jaxlib-* build dist *.egg-info
	rm -rf docs/_build docs/reference benchmarks/results
	rm -rf .cache .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
