# Everything is set up from Python >= 3.11 and make alone, in virtual environments beside this file,
# and only when something has changed. The newest Python that is found, with the newest jaxlib for
# it, is the default.
#   make run            the demo
#   make test           all checks and the quick tests
#   make test-oldest    the tests that touch jaxlib, with the oldest Python and jaxlib: five minutes
#   make test-all       the slow tests too
#   make test-matrix    the quick tests on Python 3.11 to 3.13 with jaxlib 0.10 to 0.12
#   make bench          speed beside the JAX of the same jaxlib
#   make bench-corpus   the corpus of programs beside JAX
#   make bench-ops      time of each operation beside JAX
#   make accuracy       errors of functions in ulp
#   make targets        the operation table compiled for TPUs and an H100, none of which is there
#   make device-checks  what only a device can show, on a machine that has one; ten minutes
#   make guard          known answers against the installed jaxlib: values, times, memory
#   make conformance    JAX's published tests, where they are laid out; conformance-2026, those
#                       of August 2026; conformance-processes, those of several processes
#   make docs           the documentation site
#   make mutants        changes to the library that tests must notice; drawn by chance in a package:
#                       PART=lax/_sorting.py, or PART=random
#   make libraries      the newest libraries on JAX and on Teucer: imports, examples, times
#   make lint, format, clean

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The path of a Python of a version, 3.13 say: on PATH, or one of pyenv's that is not active.
find_python = $(shell for p in python$(1) \
    $$(ls -d $(HOME)/.pyenv/versions/$(1).*/bin/python 2>/dev/null | sort -rV) python3; do \
    "$$p" -c 'import ensurepip, sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(1)")' \
    2>/dev/null && command -v "$$p" && break; done)
newest_python = $(firstword $(foreach version,3.14 3.13 3.12 3.11,$(call find_python,$(version))))

PYTHON ?= $(newest_python)
# The releases of jaxlib, each with the Python on which it is tested.
OLDEST := 3.11-0.10.2
MATRIX := $(OLDEST) 3.12-0.11.2 3.13-0.12.x
WORKERS ?= 2

BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
PIP_ALOUD := -m pip install --progress-bar off --disable-pip-version-check
PYTEST_QUICK := pytest -n $(WORKERS) -q -m "not slow"
# The tests of what calls jaxlib: compilers, arrays, devices, kernels, serialised programs.
TOUCH_JAXLIB := tests/arrays tests/devices tests/executables tests/ffi tests/core tests/programs \
    tests/compat tests/profiling tests/dynamic tests/kernels tests/test_dtypes.py \
    tests/test_pytrees.py tests/test_import.py tests/test_config.py
SETUP_INPUTS := pyproject.toml Makefile

.PHONY: help setup run test test-all test-oldest test-matrix bench bench-corpus bench-ops accuracy \
    device-checks libraries guard conformance conformance-2026 conformance-processes docs mutants \
    lint format clean

need_python = @test -n "$(1)" || { echo "No Python $(2) found. Install one, with 'pyenv install" \
    "$(2)' for instance, or name it: make $(3)=/path/to/python" >&2; exit 1; }

help:
	@sed -n '4,21s/^#   //p' Makefile

setup: .venv/.installed

.venv/.installed: $(SETUP_INPUTS)
	$(call need_python,$(PYTHON),3.13,PYTHON)
	"$(PYTHON)" -m venv --clear .venv
	@"$(PYTHON)" tools/aloud.py "Installing into .venv:" $(BIN)/python $(PIP_ALOUD) \
	    -e '.[cli,demo,viz,test]'
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

test-oldest: .venv-$(OLDEST)/.installed
	.venv-$(OLDEST)/bin/$(PYTEST_QUICK) $(TOUCH_JAXLIB)

test-matrix: $(MATRIX:%=.venv-%/.installed)
	@set -e; for pair in $(MATRIX); do echo "== Python and jaxlib $$pair"; \
	    .venv-$$pair/bin/$(PYTEST_QUICK); done

# An environment .venv-PYTHON-JAXLIB. PYTHON311, PYTHON312 and PYTHON313 name other Pythons.
version_of = $(firstword $(subst -, ,$(1)))
variable_of = PYTHON$(subst .,,$(call version_of,$(1)))
python_of = $(or $($(call variable_of,$(1))),$(call find_python,$(call version_of,$(1))))
jaxlib_of = $(subst x,*,$(lastword $(subst -, ,$(1))))
.venv-3.%/.installed: $(SETUP_INPUTS)
	$(call need_python,$(call python_of,3.$*),$(call version_of,3.$*),$(call variable_of,3.$*))
	"$(call python_of,3.$*)" -m venv --clear .venv-3.$*
	.venv-3.$*/bin/python $(PIP_INSTALL) -e '.[cli,viz,test]' 'jaxlib==$(call jaxlib_of,3.$*)'
	@touch $@

# JAX and Teucer cannot share a process, and JAX is not a dependency: it lives in an environment of
# its own, in the release of the jaxlib that Teucer uses.
.venv-jax/.installed: .venv/.installed
	"$(PYTHON)" -m venv --clear .venv-jax
	version=$$($(BIN)/python -c 'import jaxlib; print(jaxlib.__version__)'); \
	    .venv-jax/bin/python $(PIP_INSTALL) "jax==$$version" "jaxlib==$$version"
	@touch $@

docs: .venv/.docs-installed
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

.venv/.docs-installed: .venv/.installed
	$(BIN)/python $(PIP_INSTALL) -e '.[docs]'
	@touch $@

# The first draw notes which tests come by which lines: that takes as long as the quick tests in one
# process.
mutants: .venv/.installed
	$(BIN)/python tools/mutants.py $(PART) $(if $(PART),-n $(or $(NUMBER),8))

bench: .venv/.installed .venv-jax/.installed
	$(BIN)/python benchmarks/compare.py --jax .venv-jax/bin/python --teucer $(BIN)/python $(BENCH_ARGS)

# Half an hour on an idle machine. JAX_PYTHON names another JAX.
bench-corpus: .venv/.installed $(if $(JAX_PYTHON),,.venv-jax/.installed)
	$(BIN)/python benchmarks/corpus/compare.py --jax $(or $(JAX_PYTHON),.venv-jax/bin/python) \
	    --teucer $(BIN)/python $(BENCH_ARGS)

# Largest errors in ulp beside JAX's, as benchmarks/notes/accuracy.md has them; ARGS="--all erfc"
# for all inputs of a function.
accuracy: .venv/.installed .venv-jax/.installed
	$(BIN)/python benchmarks/accuracy.py --jax .venv-jax/bin/python $(ARGS)

# Rows for which no plugin is installed are skipped: pip install "teucer[tpu]" brings that of TPUs.
targets: .venv/.installed
	$(BIN)/python -m pytest -n $(WORKERS) -q tests/targets/test_operation_table.py $(ARGS)

# For any TPU or GPU that is there; ARGS="--platform cpu" tests the checks, ARGS="--jax PYTHON" adds
# the speed beside the JAX of another environment.
device-checks: .venv/.installed
	$(BIN)/python tools/device_checks $(ARGS)

# Time of each operation beside JAX's; ARGS="--sizes 10 100000 sort cumsum" for some.
bench-ops: .venv/.installed .venv-jax/.installed
	$(BIN)/python benchmarks/operations.py --jax .venv-jax/bin/python $(ARGS)

# The newest libraries, in environments of their own; two hours. ARGS=--small for three of them,
# ARGS=--write for the table of docs/libraries.md.
libraries: .venv/.installed
	$(BIN)/python tools/newest_libraries.py $(ARGS)

# Known answers against the installed jaxlib; three minutes.
guard: .venv/.installed
	$(BIN)/teucer guard

# JAX's published tests, where tools/conformance/get_tests.sh has laid them out; about an hour.
JAX_TESTS ?= ../JAX_TESTS
conformance: .venv-$(OLDEST)/.installed
	.venv-$(OLDEST)/bin/python $(PIP_INSTALL) absl-py hypothesis mpmath pillow portpicker \
	    cloudpickle flatbuffers filelock matplotlib
	.venv-$(OLDEST)/bin/python tools/conformance/habit.py $(JAX_TESTS) $(FILES)

# Those of August 2026, for jaxlib 0.12.
JAX_TESTS_2026 ?= ../JAX_TESTS_2026
conformance-2026: .venv/.installed
	$(BIN)/python $(PIP_INSTALL) absl-py hypothesis mpmath pillow portpicker cloudpickle flatbuffers \
	    filelock matplotlib
	$(BIN)/python tools/conformance/habit.py --release 2026-08 $(JAX_TESTS_2026) $(FILES)

# Those of several processes, in 2 of 2 devices and in 4 of 2; what JAX passes and Teucer does not.
CONFORMANCE := tools/conformance/processes
conformance-processes: .venv/.installed
	$(BIN)/python $(PIP_INSTALL) absl-py hypothesis portpicker cloudpickle
	for n in 2 4; do $(BIN)/python $(CONFORMANCE)/run_multiprocess.py --impl teucer \
	    --python $(abspath $(BIN))/python --jax-src $(abspath $(JAX_TESTS_2026)) --processes $$n \
	    --devices 2 --work /tmp/teucer-processes-$$n --out /tmp/teucer-processes-$$n.json \
	    && $(BIN)/python $(CONFORMANCE)/run_multiprocess.py --compare \
	    $(CONFORMANCE)/ceiling_$${n}x2.json /tmp/teucer-processes-$$n.json; done

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* build dist *.egg-info
	rm -rf docs/_build docs/reference benchmarks/results
	rm -rf .cache .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
