# Needs Python 3.11 or newer, and make. Everything else is installed into .venv; what the demo and
# the audit need, which is far less, into .venv-light.
#   make test PYTHON=python3.13     another Python (.venv is remade)
#   make soak ARGS="-k kill"        ARGS goes to pytest or to the script
#   make audit AUDIT_EXTRAS=redis,postgres,langgraph   drivers and frameworks for the audit

PYTHON ?= python3
JOBS ?= 2
# Processes that run tests: more than the two cores they are for, because tests often wait.
WORKERS ?= 3
ARGS ?=
AUDIT_EXTRAS ?= redis,postgres

VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
STAMP := $(VENV)/.made-with-$(VERSION)
LIGHT := .venv-light
LIGHT_PIP := $(LIGHT)/bin/python -m pip --disable-pip-version-check -qq
LIGHT_STAMP := $(LIGHT)/.made-with-$(VERSION)
DEMO_STAMP := $(LIGHT_STAMP)-demo
DASHBOARD_STAMP := $(LIGHT_STAMP)-dashboard
comma := ,
AUDIT_STAMP := $(LIGHT_STAMP)-audit-$(subst $(comma),-,$(AUDIT_EXTRAS))
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
PYTEST := $(BIN)/python -m pytest -q --no-header
AGAIN := $(BIN)/python tools/once_more.py

# Whatever the caller's shell carries must not leak into the tools. Without bytecode every process
# that a test starts would compile the package again, and that takes longer than most of them run.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export PYTHONHASHSEED := 0

.DEFAULT_GOAL := help
.PHONY: help venv lint types sync drift completions client packages node langgraph-server docs test untimed soak bench bench-scale bench-peers budgets bench-repeats demo dashboard audit audit-power findings release clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 15

venv: $(STAMP) ## make .venv, or remake it when a requirement or the Python changed

define check_python
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("$(PYTHON) is Python $(VERSION); 3.11 or newer is needed: make PYTHON=python3.11")'
endef

$(STAMP): pyproject.toml requirements-dev.txt constraints.txt
	$(check_python)
	@echo "making $(VENV) with Python $(VERSION)"
	@rm -f $(VENV)/.made-with-*
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install -c constraints.txt -r requirements-dev.txt
	@$(PIP) install -c constraints.txt --no-build-isolation -e .
	@touch $@

$(LIGHT_STAMP): pyproject.toml constraints.txt
	$(check_python)
	@echo "making $(LIGHT) with Python $(VERSION)"
	@rm -f $(LIGHT)/.made-with-*
	@$(PYTHON) -m venv --clear $(LIGHT)
	@touch $@

$(DEMO_STAMP): $(LIGHT_STAMP)
	@$(LIGHT_PIP) install -c constraints.txt -e .
	@touch $@

$(AUDIT_STAMP): $(LIGHT_STAMP)
	@$(LIGHT_PIP) install -c constraints.txt -e ".[$(AUDIT_EXTRAS)]"
	@touch $(DEMO_STAMP) $@

lint: $(STAMP) ## ruff: rules and format
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .

types: $(STAMP) ## mypy --strict on src and tools
	@$(BIN)/mypy --no-error-summary

sync: $(STAMP) ## generate src/stateward/sync from the async sources
	@$(BIN)/python tools/async_to_sync.py

drift: $(STAMP) ## fail if src/stateward/sync is not what the generator writes
	@$(BIN)/python tools/async_to_sync.py --check

completions: $(STAMP) ## generate the shell completion scripts from the command options
	@$(BIN)/python tools/completions.py

client: $(STAMP) ## generate the TypeScript client's types from the OpenAPI document
	@$(BIN)/python tools/typescript.py

langgraph-server: $(STAMP) ## LangGraph's development server, which has its own requirements
	@$(BIN)/python tools/langgraph_server.py

node: $(STAMP) ## the compiler and the generator of the TypeScript client, from npm
	@$(BIN)/python tools/typescript.py install

# Exit status 5 is pytest's "nothing selected": right when ARGS leaves a run empty.
packages: $(STAMP) ## Debian packages that some tests need, where they may be installed
	@$(BIN)/python tools/system_packages.py

# The tests make thousands of stores, and most of the time would go to waiting for a disk. That a
# store survives kills does not depend on one; `make soak` runs on what TMPDIR says.
MEMORY := $(shell $(PYTHON) tools/memory_folder.py)
TIMED = $(shell grep -rl --include='*.py' 'mark\.timing' tests)
test: export TMPDIR := $(or $(TMPDIR),$(MEMORY),/tmp)
test: lint drift packages node langgraph-server ## lint, types, drift, then every test but the soaks
	@$(MAKE) --no-print-directory -j2 types untimed
	@$(PYTEST) --cache-clear -m "timing and not soak" $(or $(ARGS),$(TIMED)) || { status=$$?; [ $$status -eq 5 ] || $(AGAIN) $$status; }

# Beside `types`: mypy takes a minute and has one process, and the tests often wait.
untimed: $(STAMP)
	@$(PYTEST) --cache-clear -n $(WORKERS) --dist worksteal -m "not soak and not timing" $(ARGS) || { status=$$?; $(if $(ARGS),[ $$status -eq 5 ] ||) $(AGAIN) $$status; }

docs: $(STAMP) ## build the documentation site into site/, offline, and check it in a browser too
	@PYTHONPATH=tools $(BIN)/python -m docs_site site
	@SITE=site $(PYTEST) tests/docs/test_site.py $(ARGS)

soak: $(STAMP) ## the long tests
	@$(PYTEST) -m soak --timeout 0 $(ARGS)

bench: $(STAMP) ## measure the engines against their raw drivers
	@$(BIN)/python -m bench $(ARGS)

bench-scale: $(STAMP) ## many conversations, many processes, a million messages (half an hour)
	@$(BIN)/python -m bench.scale $(ARGS)

budgets: $(STAMP) ## what the hot path costs now becomes what the guard allows
	@$(BIN)/python tests/guard/counting.py --write

# Contestants have requirements of their own: they must not decide what the tests run with.
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.made-with-$(VERSION)

$(PEERS_STAMP): pyproject.toml bench/requirements-peers.txt
	@echo "making $(PEERS) with Python $(VERSION)"
	@rm -f $(PEERS)/.made-with-*
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install -r bench/requirements-peers.txt
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install --no-deps --no-build-isolation -e ".[redis,postgres]"
	@touch $@

bench-peers: $(PEERS_STAMP) ## measure beside other stores; writes docs/performance.md
	@$(PEERS)/bin/python -m bench.peers $(ARGS)

bench-repeats: $(STAMP) ## how well lost context is noticed; ARGS=folder of dev.jsonl
	@$(BIN)/python -m bench.repeats $(ARGS)

demo: $(DEMO_STAMP) ## a support agent with three replicas on one SQLite file, offline
	@$(LIGHT)/bin/python tools/demo.py $(ARGS)

$(DASHBOARD_STAMP): $(LIGHT_STAMP)
	@$(LIGHT_PIP) install -c constraints.txt -e ".[server,cron]"
	@touch $(DEMO_STAMP) $@

# A new day each time, because the dashboard shows the last 24 hours.
DAY := $(or $(TMPDIR),/tmp)/stateward-dashboard-$(shell id -u).db
dashboard: $(DASHBOARD_STAMP) ## the dashboard, with a generated day of data
	@rm -f $(DAY) $(DAY)-wal $(DAY)-shm
	@$(LIGHT)/bin/python tools/shop_day.py $(DAY)
	@$(LIGHT)/bin/python -m stateward ui sqlite:///$(DAY) $(ARGS)

audit: $(AUDIT_STAMP) ## audit the embedded store; leaves audit/report.html (ARGS="redis://… --yes")
	@$(LIGHT)/bin/python -m stateward audit --output audit $(ARGS)

audit-power: $(STAMP) ## how many broken memories the audit finds (PROFILE=full ONLY='append.*' JOBS=2)
	@PYTHONPATH=tests:tools $(BIN)/python -m audit.mutations --jobs $(JOBS) $(if $(PROFILE),--profile $(PROFILE)) $(if $(ONLY),--only '$(ONLY)') $(ARGS)

findings: $(STAMP) ## audit public systems and show their defects; writes docs/findings.md
	@PYTHONPATH=tools $(BIN)/python -m findings $(ARGS)

release: $(STAMP) ## build wheel, sdist and SBOM into dist/ and check them; uploads nothing
	@$(BIN)/python tools/release.py $(ARGS)

clean: ## remove .venv and the like, caches and builds
	@rm -rf $(VENV) $(LIGHT) $(PEERS) .venv-findings audit build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
