# What one does with a clone of Belvedere. `make` alone lists the targets.

PYTHON ?=
BIN := .venv/bin
STORE ?=
PORT ?=
WORKERS ?= 2
TESTS ?=

.DEFAULT_GOAL := help
.PHONY: help setup run check test fast nightly cluster bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## make .venv, install what is needed, see that there is a Java 17 or 21
	@PYTHON="$(PYTHON)" tools/setup

run: setup  ## run the sensor example and its API on http://127.0.0.1:8080 (PORT=..., STORE=...)
	$(BIN)/belvedere run examples/iot/iot.sqrl $(if $(PORT),--port $(PORT)) $(if $(STORE),--store $(STORE))

check: setup  ## format, lint, types, and who may import whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup  ## every test but the nightly ones
	$(BIN)/pytest -m "not nightly" -n $(WORKERS) --dist worksteal --durations=10 $(TESTS)

fast: setup  ## the tests that need neither a JVM nor Postgres nor a browser
	$(BIN)/pytest -m "not nightly and not spark and not postgres and not browser"

nightly: setup  ## the long-running tests, with Spark set as it runs in production
	PYSPARK_SUBMIT_ARGS=pyspark-shell $(BIN)/pytest -m "nightly or deep" --timeout=3600 -n $(WORKERS) --dist worksteal --durations=10 $(TESTS)

cluster: setup  ## the tests that start a Spark cluster on this machine: a master and two workers
	PYSPARK_SUBMIT_ARGS=pyspark-shell $(BIN)/pytest -m cluster --durations=10 $(TESTS)

bench: setup  ## measure on this machine: throughput, latency, memory, against Spark in batch and DuckDB
	$(BIN)/python -m bench

docs: setup  ## make the site of docs/ in build/site; open build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## remove .venv and everything that tools and runs left behind
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist bench/results spark-warehouse
	rm -rf examples/*/*.db examples/*/*.db-* examples/*/*.state
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
