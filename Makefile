# Needs git, make and Python 3.11 or newer on the machine. Everything else (uv, the virtual environment, the control plane
# for the demo and the integration tests) is fetched or built on first use, inside this checkout and the user's cache.

PYTHON     ?= python3
UV_VERSION := $(shell sed -n 's/^uv==\([^ ]*\).*/\1/p' .ci/uv.txt)
ARGS       ?=

UV   := .uv/bin/uv-$(UV_VERSION)
BIN  := .venv/bin
SYNC := .venv/.synced

# One interpreter for everything: uv neither downloads another Python nor follows somebody's active environment.
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv
# Compiled once, as in the image, and not at every start where PYTHONDONTWRITEBYTECODE is set: that takes longer than the start.
export UV_COMPILE_BYTECODE := 1
unexport VIRTUAL_ENV

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo test versions soak faults facts check help format devcluster python clean fuzz chart picture wheel image upgrade digest

demo: $(SYNC) ## Show two training jobs on 4 nodes, without and with Muster, on a real control plane (ARGS="--help")
	@$(BIN)/python -m devcluster --build-only
	@$(BIN)/python -m devcluster.demo $(ARGS)

test: $(SYNC) ## Run the whole test suite, integration included (ARGS="-k name" selects)
	@echo "The integration tests need a real control plane, the controllers of jobs, and helm: their programs are built now unless they are cached."
	@$(BIN)/python -m devcluster --build-only --helm
	@$(BIN)/python -m devcluster.controllers --build-only
	@# The pages of the dashboard are tested in a real browser: an installed Chromium, or Debian's packages in the cache.
	@$(BIN)/python -m devcluster.chromium
	@$(BIN)/python -m devcluster.prometheus
	@# One test upgrades Kubernetes.
	@$(BIN)/python -m devcluster --build-only --kubernetes 1.36
	@# Three workers for two cores: an integration test waits for its control plane for much of its time.
	@# PYTHONDONTWRITEBYTECODE would have each worker compile all tests anew: that takes longer than to import them.
	@# GOGC: control planes that live for a minute need not collect garbage as often; it saves a tenth of their processor time.
	@# The order of files is that of tests/conftest.py, and not that of how many tests each has.
	GOGC=400 env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

versions: $(SYNC) ## Run the integration tests on older versions of Kubernetes; takes an hour (ARGS="--only 1.35")
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.versions $(ARGS)

upgrade: $(SYNC) ## Upgrade from an earlier commit and back in every order of the steps; takes minutes (ARGS="--from COMMIT")
	@$(BIN)/python -m devcluster --build-only
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.upgrade $(ARGS)

soak: $(SYNC) ## Inject faults into simulated clusters until stopped or a guarantee is violated (ARGS="--seed 7" replays)
	@$(BIN)/python -m tests.simulation.soak $(ARGS)

digest: $(SYNC) ## Hash what the core asks for in seeds and scripts: a refactoring keeps it (ARGS="--base HEAD~1" compares)
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.digest $(ARGS)

fuzz: $(SYNC) ## Send malformed and hostile documents to Muster, generated from a seed (ARGS="--inputs 1000000 --seed 7")
	@$(BIN)/python -m tests.fuzz $(ARGS)

check: $(SYNC) ## Check format, lint, types, import contracts, the lock file, and known vulnerabilities
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(UV) lock --check
	@.ci/audit $(UV)

devcluster: $(SYNC) ## Start a real control plane on loopback to play with, until Ctrl-C
	@$(BIN)/python -m devcluster $(ARGS)

faults: $(SYNC) ## Inject faults into a real control plane at every write and process; takes half an hour (ARGS="--rounds 1")
	@$(BIN)/python -m benchmarks faults $(or $(ARGS),--rounds 3)

facts: $(SYNC) ## Find out anew what Kubernetes does, slow facts too, and make the pages of facts (ARGS="-k unsuspend")
	@$(BIN)/python -m devcluster --build-only
	@$(BIN)/python -m devcluster.controllers --build-only
	@$(BIN)/python -m tests.facts $(ARGS)

chart: $(SYNC) ## Make the templates, schema and table of the Helm chart from manifests/ and values.yaml
	@$(BIN)/python -m charts

picture: $(SYNC) ## Draw docs/architecture.svg, the ladder of packages in ARCHITECTURE.md, from the imports
	@$(BIN)/python -m tests.documents.picture

image: $(SYNC) ## Build the image in a Debian root, without Docker, and run it on a control plane; needs root (ARGS="--fresh")
	@$(BIN)/python -m devcluster --build-only
	@$(BIN)/python -m tests.image $(ARGS)

wheel: $(SYNC) ## Build the wheel into dist, with the locked build backend
	@$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist

format: $(SYNC) ## Format the code and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## Remove the virtual environment, uv and the caches of this checkout
	rm -rf .venv .uv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

help: ## Show this list
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The virtual environment follows pyproject.toml and uv.lock, and is left alone while neither changes.
$(SYNC): pyproject.toml uv.lock $(UV)
	@echo "Installing the locked dependencies into .venv"
	@$(UV) sync --frozen --quiet --extra server --python $(PYTHON)
	@$(BIN)/python -m compileall -q dashboard extender policies devcluster benchmarks
	@touch $@

# uv lives in a small environment of its own; the version is part of the file's name, so a new pin is a new target.
$(UV): | python
	@echo "Getting uv $(UV_VERSION) from PyPI into .uv"
	@rm -rf .uv && $(PYTHON) -m venv .uv
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .ci/uv.txt
	@ln -s uv $@

python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Muster needs Python 3.11 or newer, and there is no '$(PYTHON)' on the PATH. Install it, or name one: make PYTHON=/path/to/python3"; exit 1; } >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Muster needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name a newer one: make PYTHON=/path/to/python3.11"; exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot create virtual environments: its venv and ensurepip modules are missing (on Debian and Ubuntu: apt install python3-venv)."; exit 1; } >&2
