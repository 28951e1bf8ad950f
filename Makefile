# `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help chat test live chaos bench bench-peers train test-training lint lock clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# A stamp per lock file: an unchanged lock costs no pip run.
$(VENV)/run.stamp: requirements/run.lock pyproject.toml
	@$(PYTHON) scripts/check_python.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Threadwise (first time only, about 450 MB) ..." >&2
	@$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/run.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.lock $(VENV)/run.stamp
	@$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/dev.lock
	@touch $@

chat: $(VENV)/run.stamp  ## Ask the project's own guide, on the embedded model; questions can be piped in
	@$(BIN)/threadwise chat --docs docs

test: $(VENV)/dev.stamp  ## Install and run every test
	@$(BIN)/python -m pytest -n 3 --dist worksteal

live: $(VENV)/dev.stamp  ## What a real model makes of the known hard cases: the embedded one, or LLM_BASE_URL; prints rates
	@$(BIN)/python -m pytest --timeout 0 -m live tests/live

chaos: $(VENV)/dev.stamp  ## Kill the bot at every step and at random moments, and judge what is left (about 10 minutes)
	@$(BIN)/python -m pytest --timeout 1800 -m "chaos or not chaos" tests/chaos tests/slack/test_kill_points.py

bench: $(VENV)/dev.stamp  ## Measure what Threadwise costs beside its models; PARTS="turn search" for some
	@$(BIN)/python -m bench $(PARTS)

$(VENV)-peers/stamp: requirements/peers.lock pyproject.toml
	@$(PYTHON) scripts/check_python.py
	@test -x $(VENV)-peers/bin/python || $(PYTHON) -m venv $(VENV)-peers
	@echo "Installing LangChain and LlamaIndex beside Threadwise (first time only) ..." >&2
	@$(VENV)-peers/bin/pip install --quiet --no-deps --require-hashes -r requirements/peers.lock
	@$(VENV)-peers/bin/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

bench-peers: $(VENV)-peers/stamp  ## Measure a conversation beside LangChain and LlamaIndex on the same model server
	@$(VENV)-peers/bin/python -m bench.peers

# torch and what it brings are several gigabytes, so training has an environment of its own.
$(VENV)-training/stamp: requirements/training.lock pyproject.toml
	@$(PYTHON) scripts/check_python.py
	@test -x $(VENV)-training/bin/python || $(PYTHON) -m venv $(VENV)-training
	@echo "Installing torch (first time only, about 3 GB) ..." >&2
	@$(VENV)-training/bin/pip install --quiet --no-deps --require-hashes -r requirements/training.lock
	@$(VENV)-training/bin/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

train: $(VENV)-training/stamp  ## Train the adapters of the embedded model anew, one to two hours on two cores
	@$(VENV)-training/bin/python -m training.everything

test-training: $(VENV)-training/stamp  ## A few steps of training: the loss falls, and llama.cpp reads what comes of it
	@$(VENV)-training/bin/python -m pytest --timeout 900 training/tests

lint: $(VENV)/dev.stamp  ## Formatter, linter, types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

lock:  ## Pin every dependency again, by hash (needs uv)
	sh scripts/lock.sh

clean:  ## Remove what was installed and built; data stays
	rm -rf $(VENV) $(VENV)-training $(VENV)-peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
