# The two main targets: `make run` evaluates MiniLM on the demo suite, `make test` runs all checks.
# Each target first installs what it needs in .venv, again only if pyproject.toml or constraints.txt
# has changed. Only the package registry is contacted.

PYTHON ?= python3
VENV ?= .venv
# More arguments for the command: make run ARGS="--tasks sst2 --data-dir FOLDER"
ARGS ?=
# 0 lets `make run` reach the hub for other models.
HF_HUB_OFFLINE ?= 1
# The number of processes that run tests, each with one thread.
WORKERS ?= 2
# The version of torch that `make constraints` pins. The hashes of the wheels without CUDA are added
# if pip's find-links folder holds them: PyPI does not have them.
TORCH ?= $(shell sed -n '/^torch==/{s/torch==\([0-9.]*\).*/\1/p;q}' constraints.txt)

BIN := $(VENV)/bin
# uv checks every package against the hashes in constraints.txt. It also looks where pip is told to.
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -b constraints.txt
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
# Tests start hundreds of processes. Without compiled modules, each compiles thousands of them again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run install test test-slow chaos lint types contracts unit docs docs-serve bench dist test-lowest format constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/.demo ## Evaluate MiniLM on the demo suite, offline
	HF_HUB_OFFLINE=$(HF_HUB_OFFLINE) $(strip $(BIN)/polarity-bench run $(ARGS))

install: $(VENV)/.dev ## Install the developers' packages in .venv

test: lint types contracts unit ## Run all checks but the slow tests

test-slow: $(VENV)/.dev ## Run the slow tests: Ray, torchrun, real encoders and data
	$(PYTEST) -m slow $$(grep -rlw --include='test_*.py' 'mark\.slow' tests) $(ARGS)

lint: $(VENV)/.dev ## Check style and formatting (ruff), and the workflows (zizmor, actionlint if installed)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/zizmor --quiet --offline --no-progress .github
	@if command -v actionlint > /dev/null; then actionlint; fi

chaos: $(VENV)/.dev ## Kill, starve and damage the commands, and write docs/reliability.md; Linux, root and strace
	PYTHONPATH=tests $(BIN)/python -m chaos --write $(ARGS)

types: $(VENV)/.dev ## Check types (mypy, strict)
	$(BIN)/mypy

contracts: $(VENV)/.dev ## Check which module may import which (import-linter)
	$(BIN)/lint-imports --no-logo

unit: $(VENV)/.dev ## Run the tests but the slow ones (pytest)
	$(PYTEST) -m "not slow" $(ARGS)

docs: $(VENV)/.dev ## Build the documentation site in site/; a warning is an error
	$(BIN)/python docs/make_reference.py
	$(BIN)/zensical build --clean --strict
	@for page in leaderboards/*/index.html; do \
	  mkdir -p "site/$$(dirname $$page)"; cp "$$page" "site/$$page"; done

docs-serve: docs ## Serve the documentation at http://127.0.0.1:8000
	$(BIN)/python -m http.server --directory site --bind 127.0.0.1 8000

bench: $(VENV)/.dev ## Measure speed beside other libraries on an idle machine, and write docs/performance.md
	$(BIN)/python benchmarks/performance.py $(ARGS)

dist: $(VENV)/.dev ## Build the package twice, compare the bytes and check it; TAG=v1.2.3 must be its version
	@test -z "$(TAG)" || test "$(TAG)" = "v$$($(BIN)/polarity-bench --version)" || \
	  { echo "the tag $(TAG) is not the version, $$($(BIN)/polarity-bench --version)"; exit 2; }
	rm -rf dist build/again
	SOURCE_DATE_EPOCH=1580601600 $(BIN)/python -m build --no-isolation --outdir dist .
	SOURCE_DATE_EPOCH=1580601600 $(BIN)/python -m build --no-isolation --outdir build/again .
	for file in dist/*; do cmp "$$file" "build/again/$${file##*/}"; done
	$(BIN)/python -m twine check --strict dist/*

test-lowest: $(VENV)/.uv ## Run the tests with the lowest versions that pyproject.toml allows
	$(BIN)/uv venv --quiet --clear --seed --python $(PYTHON) .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest --resolution lowest-direct -e '.[dev]'
	.venv-lowest/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(ARGS)

format: $(VENV)/.dev ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

constraints: $(VENV)/.uv ## Write constraints.txt: the newest versions that go together, with hashes
	@mkdir -p build
	@sed '/^[^#]/,$$d' constraints.txt > build/constraints.txt
	@printf 'editables\nuv\ntorch==$(TORCH)\n' | env -u UV_FIND_LINKS \
	  $(BIN)/uv pip compile --quiet --universal \
	  --python-version 3.11.5 --generate-hashes --no-header --no-annotate --extra dev \
	  pyproject.toml - --output-file build/resolved.txt
	@for wheel in $(wildcard $(PIP_FIND_LINKS)/torch-$(TORCH)+cpu-*.whl); do \
	  hash=$$(sha256sum "$$wheel" | cut -c1-64); \
	  sed -i "s/^torch==.* \\\\$$/&\n    --hash=sha256:$$hash \\\\/" build/resolved.txt; done
	@cat build/resolved.txt >> build/constraints.txt
	@mv build/constraints.txt constraints.txt
	@rm build/resolved.txt

clean: ## Remove the environment, caches and builds; results stay
	rm -rf $(VENV) .venv-lowest build dist site docs/reference .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.uv: constraints.txt
	@echo "making the environment in $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@awk '/^[^ ]/ { inside = /^uv==/ } inside' constraints.txt > $(VENV)/uv.txt
	@$(BIN)/python -m pip --disable-pip-version-check -qq install --require-hashes -r $(VENV)/uv.txt
	@touch $@

$(VENV)/.demo: $(INPUTS) | $(VENV)/.uv
	@echo "installing the demo's packages; this takes a minute the first time"
	@$(INSTALL) -e '.[demo]'
	@touch $@

$(VENV)/.dev: $(INPUTS) | $(VENV)/.uv
	@echo "installing the developers' packages; this takes some minutes the first time"
	@$(INSTALL) -e '.[dev]'
	@$(BIN)/uv pip check --quiet --python $(BIN)/python
	@touch $@ $(VENV)/.demo
