# Needs Python 3.11 or newer, and make. Everything else is installed into .venv: for `make test` a
# few packages, for `make verify` and what else needs them also the frameworks and their servers.
# What the demo and the audit need goes into .venv-light.
#   make test PYTHON=python3.13     another Python, in an environment of its own (.venv-3.13)
#   make test ARGS="-k cancel"      ARGS goes to pytest or to the script
#   make verify APT=1               as root: install the Debian packages that some tests need
#   make audit AUDIT_EXTRAS=redis,postgres,langgraph   drivers and frameworks for the audit

PYTHON ?= python3
JOBS ?= 2
# Processes that run tests. Those of `make verify` are more than the two cores they are for, because
# its tests often wait; each begins by collecting all tests, which takes seconds.
WORKERS ?= 6
FAST_WORKERS ?= 3
TIER ?= test
ARGS ?=
AUDIT_EXTRAS ?= redis,postgres

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
VENV := .venv$(if $(filter file,$(origin PYTHON)),,-$(basename $(VERSION)))
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-with-$(VERSION)
ALL := $(STAMP)-all
LIGHT := .venv-light
LIGHT_PIP := $(LIGHT)/bin/python -m pip --disable-pip-version-check -qq
LIGHT_STAMP := $(LIGHT)/.made-with-$(VERSION)
DEMO_STAMP := $(LIGHT_STAMP)-demo
DASHBOARD_STAMP := $(LIGHT_STAMP)-dashboard
comma := ,
AUDIT_STAMP := $(LIGHT_STAMP)-audit-$(subst $(comma),-,$(AUDIT_EXTRAS))
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# Each environment has a cache of its own: tests run on several Pythons at the same time.
CACHE := .pytest_cache/$(notdir $(VENV))
PYTEST := $(BIN)/python -m pytest -q --no-header -o cache_dir=$(CACHE)
AGAIN := $(BIN)/python tools/once_more.py $(CACHE)

# Whatever the caller's shell carries must not leak into the tools. Without bytecode every process
# that a test starts would compile the package again, and that takes longer than most of them run.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export PYTHONHASHSEED := 0

.DEFAULT_GOAL := help
.PHONY: help venv environment environments needs lint types sync drift generate packages node langgraph-server docs test fast verify untimed soak bench bench-scale bench-peers budgets bench-repeats demo dashboard audit audit-power findings release clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 15

venv: $(ALL) ## make .venv with everything, or remake it when a requirement or the Python changed

define check_python
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("$(PYTHON) is Python $(VERSION); 3.11 or newer is needed: make PYTHON=python3.11")'
endef

$(STAMP): pyproject.toml requirements-test.txt constraints.txt
	$(check_python)
	@echo "making $(VENV) with Python $(VERSION)"
	@rm -f $(VENV)/.made-with-*
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install -c constraints.txt -r requirements-test.txt
	@$(PIP) install -c constraints.txt --no-build-isolation -e .
	@touch $@

$(ALL): $(STAMP) requirements-dev.txt
	@echo "installing what make verify needs into $(VENV)"
	@$(PIP) install -c constraints.txt -r requirements-dev.txt
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

# What imports a framework can be checked only where `make verify` has installed the frameworks.
FRAMEWORKS_APART = --follow-imports silent --disable-error-code import-not-found \
  --exclude 'integrations/|audit/targets/frameworks/|exporters/otel|tools/(foreign|findings)'
types: $(STAMP) ## mypy --strict on src, tools and some of the tests
	@$(BIN)/mypy --no-error-summary $(if $(wildcard $(ALL)),,$(FRAMEWORKS_APART))

sync: $(STAMP) ## generate src/stateward/sync from the async sources
	@$(BIN)/python tools/async_to_sync.py

drift: $(STAMP) ## fail if src/stateward/sync is not what the generator writes
	@$(BIN)/python tools/async_to_sync.py --check

generate: $(ALL) node ## make every generated file of the repository
	@$(BIN)/python tools/generate.py

langgraph-server: $(ALL) ## LangGraph's development server, which has its own requirements
	@$(BIN)/python tools/langgraph_server.py

node: $(ALL) ## the compiler and the generator of the TypeScript client, from npm
	@$(BIN)/python tools/typescript.py install

packages: $(ALL) ## see which Debian packages are missing that some tests need; APT=1 installs them
	@$(BIN)/python tools/system_packages.py $(if $(APT),--install)

# The tests make thousands of stores, and most of the time would go to waiting for a disk. That a
# store survives kills does not depend on one; `make soak` runs on what TMPDIR says.
MEMORY := $(shell $(PYTHON) tools/memory_folder.py)
test fast verify: export TMPDIR := $(or $(TMPDIR),$(MEMORY),/tmp)

# Beside each other: mypy has one process, and some tests wait.
test: lint drift ## lint, types, drift, and each test that needs Python alone
	@$(MAKE) --no-print-directory -j2 types fast

# Exit status 5 is pytest's "nothing selected": right when ARGS leaves a run empty.
fast: $(STAMP)
	@$(PYTEST) --cache-clear --tier $(TIER) -n $(FAST_WORKERS) --dist worksteal $(ARGS) || { status=$$?; $(if $(ARGS),[ $$status -eq 5 ] ||) $(AGAIN) $$status; }

# Ruff and mypy say the same on every Python: pyproject.toml names the oldest version to both. Nor
# does a test with a hundred parameters say another thing with each: another Python runs its share,
# in one process, beside the others and while the frameworks are installed. mypy runs once, when
# what imports a framework can be checked.
OTHERS = $(shell $(PYTHON) tools/pythons.py --others)
verify: lint drift ## everything that CI runs: make test, a share of it on each other Python, all others
	@$(MAKE) --no-print-directory -j2 fast environments
	@$(MAKE) --no-print-directory -j3 $(addprefix share@,$(OTHERS)) needs
	@$(MAKE) --no-print-directory -j2 types untimed
	@$(PYTEST) --cache-clear -m "timing and not soak" $(or $(ARGS),$(TIMED)) || { status=$$?; [ $$status -eq 5 ] || $(AGAIN) $$status; }

needs: $(ALL) packages node langgraph-server

environments:
	@for python in $(OTHERS); do $(MAKE) --no-print-directory environment PYTHON=$$python || exit; done

environment: $(STAMP)

share@/%:
	@$(MAKE) --no-print-directory fast PYTHON=/$* TIER=python FAST_WORKERS=0

TIMED = $(shell grep -rl --include='*.py' 'mark\.timing' tests)
untimed: $(ALL)
	@$(PYTEST) --cache-clear -n $(WORKERS) --dist worksteal -m "verify and not soak and not timing" $(ARGS) || { status=$$?; $(if $(ARGS),[ $$status -eq 5 ] ||) $(AGAIN) $$status; }

docs: $(ALL) ## build the documentation site into site/, offline, and check it in a browser too
	@PYTHONPATH=tools $(BIN)/python -m docs_site site
	@SITE=site $(PYTEST) tests/docs/test_site.py $(ARGS)

soak: $(ALL) ## the long tests
	@$(PYTEST) -m soak --timeout 0 $(ARGS)

bench: $(ALL) ## measure the engines against their raw drivers
	@$(BIN)/python -m bench $(ARGS)

bench-scale: $(ALL) ## many conversations, many processes, a million messages (half an hour)
	@$(BIN)/python -m bench.scale $(ARGS)

budgets: $(ALL) ## what the hot path costs now becomes what the guard allows
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

bench-repeats: $(ALL) ## how well lost context is noticed; ARGS=folder of dev.jsonl
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

audit-power: $(ALL) ## how many broken memories the audit finds (PROFILE=full ONLY='append.*' JOBS=2)
	@PYTHONPATH=tests:tools $(BIN)/python -m audit.mutations --jobs $(JOBS) $(if $(PROFILE),--profile $(PROFILE)) $(if $(ONLY),--only '$(ONLY)') $(ARGS)

findings: $(ALL) ## audit public systems and show their defects; writes docs/findings.md
	@PYTHONPATH=tools $(BIN)/python -m findings $(ARGS)

release: $(ALL) ## build wheel, sdist and SBOM into dist/ and check them; uploads nothing
	@$(BIN)/python tools/release.py $(ARGS)

clean: ## remove .venv and the like, caches and builds
	@rm -rf clients/typescript/dist clients/typescript/src/schema.ts .venv .venv-3.* $(LIGHT) $(PEERS) .venv-findings audit build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
