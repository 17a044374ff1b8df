# Needs Python 3.11 or newer, and make. Everything else is installed into .venv.
#   make test PYTHON=python3.13     another Python (.venv is remade)
#   make soak ARGS="-k kill"        ARGS goes to pytest or to the script

PYTHON ?= python3
JOBS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
STAMP := $(VENV)/.made-with-$(VERSION)
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
PYTEST := $(BIN)/python -m pytest -q --no-header

# Whatever the caller's shell carries must not leak into the tools.
unexport PYTHONPATH PYTHONHOME
export PYTHONHASHSEED := 0

.DEFAULT_GOAL := help
.PHONY: help venv lint types sync drift packages test soak bench bench-repeats demo audit clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 15

venv: $(STAMP) ## make .venv, or remake it when a requirement or the Python changed

$(STAMP): pyproject.toml requirements-dev.txt constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("$(PYTHON) is Python $(VERSION); 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo "making $(VENV) with Python $(VERSION)"
	@rm -f $(VENV)/.made-with-*
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install -c constraints.txt -r requirements-dev.txt
	@$(PIP) install -c constraints.txt --no-build-isolation -e .
	@touch $@

lint: $(STAMP) ## ruff: rules and format
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .

types: $(STAMP) ## mypy --strict on src and tools
	@$(BIN)/mypy --no-error-summary

sync: $(STAMP) ## write src/holdfast/sync anew from the async sources
	@$(BIN)/python tools/async_to_sync.py

drift: $(STAMP) ## fail if src/holdfast/sync is not what the generator writes
	@$(BIN)/python tools/async_to_sync.py --check

# Exit status 5 is pytest's "nothing selected": right when ARGS leaves a run empty.
packages: $(STAMP) ## Debian packages that some tests need, where they may be installed
	@$(BIN)/python tools/system_packages.py

test: lint types drift packages ## lint, types, drift, then every test but the soaks
	@$(PYTEST) -n $(JOBS) --dist worksteal -m "not soak and not timing" $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])
	@$(PYTEST) -m "timing and not soak" $(ARGS) || [ $$? -eq 5 ]

soak: $(STAMP) ## the long tests
	@$(PYTEST) -m soak $(ARGS)

bench: $(STAMP) ## measure the engines against their raw drivers
	@$(BIN)/python -m bench $(ARGS)

bench-repeats: $(STAMP) ## how well lost context is noticed; ARGS=folder of dev.jsonl
	@$(BIN)/python -m bench.repeats $(ARGS)

.PHONY: bench-scale budgets
bench-scale: $(STAMP) ## many conversations, many processes, a million messages (half an hour)
	@$(BIN)/python -m bench.scale $(ARGS)

budgets: $(STAMP) ## what the hot path costs now becomes what the guard allows
	@$(BIN)/python tests/guard/counting.py --write

demo: $(STAMP) ## a support agent with three replicas on one SQLite file, offline
	@$(BIN)/python examples/demo.py $(ARGS)

audit: $(STAMP) ## audit the embedded store; leaves audit/report.html (ARGS="redis://… --yes")
	@$(BIN)/python -m holdfast audit --output audit $(ARGS)

clean: ## remove .venv, caches and builds
	@rm -rf $(VENV) audit build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
