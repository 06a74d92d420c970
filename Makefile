# Every target makes the virtual environment it needs by itself; Python 3.11 or newer and make are all it takes.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Where bytecode is never written, every process that a test starts compiles all of holdtight again.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
# The first interpreter that is new enough and can make virtual environments; name another with PYTHON=…
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$candidate -c $(NEW_ENOUGH) 2>/dev/null && { command -v $$candidate; break; }; done)
NEW_ENOUGH := 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'
FURTHER := 3.11 3.12 3.13 3.14

PY := $(VENV)/bin/python
PIP_INSTALL := $(PY) -m pip install -qq --disable-pip-version-check
PYTEST_ARGS ?=
# Most tests wait most of the time, so more of them at once than there are cores. 0: one after another, in this process.
WORKERS ?= 8
BENCH_ARGS ?=
MODELS_ARGS ?=

.PHONY: help demo serve test test-all faults check docs bench compare models clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.dev ## The flash sale: without a lock, with a local one, with holdtight
	@$(PY) -m demo.flash_sale

serve: $(VENV)/.dev ## The lock service with something to see, until Ctrl-C (PORT=7379)
	@$(PY) -m demo.lock_service

test: $(VENV)/.compiled ## All tests (PYTEST_ARGS="-k name" for some)
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-all: test ## All tests, also on every further Python found on PATH or with pyenv
	@main=$$($(PY) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); failed=; \
	for version in $(FURTHER); do \
		[ $$version != $$main ] || continue; \
		for candidate in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
			$$candidate -c $(NEW_ENOUGH) 2>/dev/null || continue; \
			echo "== Python $$version"; \
			$(MAKE) test VENV=.venv-$$version PYTHON=$$candidate || failed="$$failed $$version"; \
			break; \
		done; \
	done; \
	[ -z "$$failed" ] || { echo "tests failed on Python$$failed" >&2; exit 1; }

faults: $(VENV)/.dev ## The long campaigns against faults, some minutes each, which make test leaves out
	@$(PY) -m pytest -m long -s $(PYTEST_ARGS)

check: $(VENV)/.checks ## Lint, format, types (mypy and pyright, strict)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pyright --pythonpath $(PY)

docs: $(VENV)/.dev ## Write docs/reference.md from the docstrings
	@$(PY) docs/reference.py

bench: $(VENV)/.dev ## Measure against the floor and the peers (BENCH_ARGS for options)
	@$(PY) -m bench $(BENCH_ARGS)

compare: $(VENV)/.dev ## Processor time of this tree next to another (OLD=../other-tree)
	@[ -n "$(OLD)" ] || { echo "name the other tree: make compare OLD=../other-tree" >&2; exit 1; }
	@$(PY) -m bench.compare $(OLD) $(BENCH_ARGS)

models: ## Check the quorum's protocol with Spin (MODELS_ARGS="--quick" for some of it)
	@[ -n "$(PYTHON)" ] || { echo "no Python 3.11 or newer found: name one with PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m models.check $(MODELS_ARGS)

clean: ## Remove the virtual environments and caches
	rm -rf .venv .venv-* bench/.venvs build models/build .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The stamps record an installation that succeeded; it is repeated only when pyproject.toml has changed.
$(VENV)/.dev: pyproject.toml
	@$(PY) -m pip --version >/dev/null 2>&1 || { \
		[ -n "$(PYTHON)" ] || { echo "no Python 3.11 or newer with venv found: install one, or name it with PYTHON=…" >&2; exit 1; }; \
		echo "making $(VENV) with $(PYTHON) …"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "installing what the tests need into $(VENV) …"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@

# pytest compiles each module of tests at its first run. Begun at once, all workers would compile all of them.
$(VENV)/.compiled: $(VENV)/.dev
	@$(PY) -m pytest --collect-only -qq >/dev/null 2>&1 || :
	@touch $@

$(VENV)/.checks: pyproject.toml $(VENV)/.dev
	@echo "installing what the checks need into $(VENV) …"
	@$(PIP_INSTALL) -e '.[checks]'
	@touch $@
