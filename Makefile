# What one does with a clone of Belvedere. `make` alone lists the targets.

PYTHON ?=
VENV ?= .venv
BIN := $(VENV)/bin
STORE ?=
PORT ?=
WORKERS ?= 2
TESTS ?=
SLICE ?=
SLOWER ?= 1
# Modules are compiled once, also where an image says otherwise: each process of a test would compile them again.
unexport PYTHONDONTWRITEBYTECODE

PYTEST = $(BIN)/pytest -n $(WORKERS) --dist worksteal $(TESTS)
# A part of a run (TESTS=...) has no budget of minutes; SLOWER=2 is for a machine that may be half as fast.
MINUTES = $(if $(TESTS),,--budget $(1) --slower $(SLOWER))
NEARLY_ALL = $(if $(TESTS),,--nearly-all 1)
NEEDS_MORE := spark or postgres or browser or node or kafka or cluster
QUICK := not ($(NEEDS_MORE) or thorough) or smoke

.DEFAULT_GOAL := help
.PHONY: help setup dev run check test test-rest test-all fast nightly cluster bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## make .venv, install what Belvedere runs with, see that there is a Java 17 or 21 and that Spark starts
	@PYTHON="$(PYTHON)" VENV="$(VENV)" tools/setup

dev:  ## the same with what tests, checks, benches and docs need
	@PYTHON="$(PYTHON)" VENV="$(VENV)" tools/setup dev

run: setup  ## run the sensor example and its API on http://127.0.0.1:8080 (PORT=..., STORE=...)
	$(BIN)/belvedere run examples/iot/iot.sqrl $(if $(PORT),--port $(PORT)) $(if $(STORE),--store $(STORE))

check: dev  ## format, lint, types, imports, prose and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.prose
	$(BIN)/python -m tools.pages
	$(BIN)/typos

test: dev  ## does it work here: all tests that need no JVM, and some of each kind of the others; 8 minutes
	$(PYTEST) -m "not nightly and ($(QUICK))" $(call MINUTES,8) $(NEARLY_ALL)

test-rest: dev  ## what `make test` leaves out of `make test-all`
	$(PYTEST) -m "not nightly and not ($(QUICK))" $(call MINUTES,12)

test-all: dev  ## every test but the nightly ones; 18 minutes
	$(PYTEST) -m "not nightly" $(call MINUTES,18) $(NEARLY_ALL)

fast: dev  ## the tests that need neither a JVM nor Postgres nor a browser, in one process
	$(BIN)/pytest -m "not nightly and not ($(NEEDS_MORE))" $(TESTS)

nightly: dev  ## the long-running tests, Spark set as in production; one slice with SLICE=..., their list with SLICE=?
	$(BIN)/python -m tests.nightly $(if $(SLICE),'$(SLICE)') --workers $(WORKERS) -- $(TESTS)

cluster: dev  ## the tests that start a Spark cluster on this machine: a master and two workers
	PYSPARK_SUBMIT_ARGS=pyspark-shell $(BIN)/pytest -m cluster --durations=10 $(TESTS)

bench: dev  ## measure on this machine: throughput, latency, memory, against Spark in batch and DuckDB
	$(BIN)/python -m bench

docs: dev  ## make the site of docs/ in build/site; open build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## remove .venv and everything that tools and runs left behind
	rm -rf .venv* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist bench/results spark-warehouse
	rm -rf examples/*/*.db examples/*/*.db-* examples/*/*.state
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
