# Everything a developer runs. `make` alone says what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.NOTPARALLEL:

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
SETUP := $(or $(PYTHON),$(error Python 3.11 or newer is needed: PYTHON=/path/to/python make setup)) -m tools.setup

CLASSES := 0.26.0 0.29.0 0.32.0 0.33.0  # versions whose classes the connector's unit tests import
ENGINES := 0.29.0 0.32.0  # versions that run on CPU
PYTEST := $(BIN)/python -m pytest

##@ Use it
.PHONY: help
help: ## Say what there is
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install everything that the rest needs (once: some minutes, 6 GB)
	@$(SETUP)

.PHONY: demo
demo: setup ## Hold a conversation on real engines, with reuse and without, and compare (about a minute)
	@$(BIN)/python -m kvlease.local.demo

##@ Work on it
.PHONY: test
test: setup lint docs unit class-test engine-test ## Run all checks and tests (about half an hour on two cores)

.PHONY: lint
lint: dev ## Check style, types, layers and protos
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd proto && ../$(BIN)/buf lint

.PHONY: unit
unit: dev proto-tools ## Run the tests that need no engine
	$(PYTEST) -m "not engine and not vllm and not compose"

.PHONY: class-test
class-test: setup ## Run the connector's tests on the classes of each supported vLLM
	for version in $(CLASSES); do echo "vLLM $$version"; \
		PYTHONPATH=.engines/vllm-$$version $(PYTEST) -m vllm tests/connector; done

.PHONY: engine-test
engine-test: setup ## Run the tests that start real engines, on each vLLM that runs on CPU
	for version in $(ENGINES); do echo "vLLM $$version"; \
		KVLEASE_TEST_VLLM=$$version $(PYTEST) -m engine tests/e2e; done
	$(PYTEST) -m engine --ignore tests/e2e  # these start engines of their own: two cores carry one pair at a time

.PHONY: bench
bench: setup .venv-bench/bin/vllm-router ## Measure against peers and limits (a quarter of an hour on two cores)
	@$(BIN)/kvlease bench

.venv-bench/bin/vllm-router:  # a peer, in an environment of its own
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install -q vllm-router==0.1.17

.PHONY: docs
docs: dev ## Build the documentation, in .cache/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mkdocs build --quiet

.PHONY: faults
faults: setup ## Run the fault matrix, a line per case; FAULTS=--fast without real engines (a minute), FAULTS=--help for more
	$(BIN)/python -m tests.faults $(FAULTS)

.PHONY: compose-test
compose-test: dev ## Run the stack of docker-compose.yml and kill its parts, where Docker runs (about four minutes)
	$(PYTEST) -m compose tests/deploy

.PHONY: proto
proto: proto-tools ## Generate the stubs from the .proto files
	.venv-proto/bin/python proto/generate.py

.PHONY: clean
clean: ## Delete what tools left behind; environments and engines stay
	rm -rf .cache .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist logs
	find . -path './.venv*' -prune -o -path ./.engines -prune -o -name __pycache__ -print0 | xargs -0 rm -rf

.PHONY: dev proto-tools
dev:
	@$(SETUP) dev
proto-tools:
	@$(SETUP) proto
