# Wakeful: `make run` is the demo, `make test` the tests; both set up what they need. `make help` lists the rest.
# Works with GNU make 3.81. A value is passed on by the environment, never pasted into a command.

.PHONY: help run test test-oldest test-matrix cases check lint bench bench-peers soak lock clean distclean
.PHONY: setup-run setup-dev setup-bench lint-style lint-format lint-types lint-imports

PYTHON_IN_VENV = .venv/bin/python

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "  PYTHON=… names an interpreter, ARGS=\"…\" is passed on: make run ARGS=--once, make test ARGS=\"-k lease\""

# Only a DATABASE_URL of this command is used, not an exported one; `value` keeps a "$" in its password.
ifeq ($(origin DATABASE_URL),command line)
export DEMO_DATABASE := $(value DATABASE_URL)
DEMO_OPTION = --database "$$DEMO_DATABASE"
endif

run: setup-run ## Run the demo with its own PostgreSQL (DATABASE_URL=… on this command: with that server)
	@exec $(PYTHON_IN_VENV) -m wakeful demo $(DEMO_OPTION) $(ARGS)

test: setup-dev ## Run the tests, with a PostgreSQL of their own
	@unset DATABASE_URL DATABASE_URL_FILE; exec $(PYTHON_IN_VENV) -m pytest $(ARGS)

test-oldest: setup-dev .pg/14 ## Run the tests of schema and store on PostgreSQL 14, the oldest
	@unset DATABASE_URL DATABASE_URL_FILE; exec $(PYTHON_IN_VENV) -m pytest --pg=14 tests/schema tests/store $(ARGS)

test-matrix: setup-dev ## Run the tests on each Python with each PostgreSQL (PYTHONS="3.13" MAJORS="14 17" ARGS="tests/store")
	@tools/matrix.sh all $(ARGS)

.pg/%: | setup-dev
	$(PYTHON_IN_VENV) tests/support/majors.py $*

cases: setup-dev ## Print which tests show which failure case of tests/cases.toml
	@PYTHONPATH=tests exec $(PYTHON_IN_VENV) -m support.cases

check: lint ## Check everything that takes seconds: lint, and the fast tests
	@unset DATABASE_URL DATABASE_URL_FILE; exec $(PYTHON_IN_VENV) -m pytest -q tests/unit tests/architecture

lint: lint-style lint-format lint-types lint-imports ## Check style, format, types and import contracts

lint-style: setup-dev
	$(PYTHON_IN_VENV) -m ruff check .

lint-format: setup-dev
	$(PYTHON_IN_VENV) -m ruff format --check .

lint-types: setup-dev
	$(PYTHON_IN_VENV) -m mypy daemon/wakeful tests examples bench

lint-imports: setup-dev
	.venv/bin/lint-imports --no-logo

bench: setup-bench ## Measure (ARGS="drain wake --rounds 5"; ARGS=--help lists what)
	@exec .venv-bench/bin/python -m bench $(ARGS)

bench-peers: setup-bench ## Measure other queues beside ours, each from its package (ARGS="PgQueuer --rounds 5")
	@bench/setup.sh peers
	@exec .venv-bench/bin/python -m bench.peers $(ARGS)

soak: setup-dev ## Half an hour of random faults under load (ARGS="--seconds 600 --rate 150 --seed 7")
	@unset DATABASE_URL DATABASE_URL_FILE; PYTHONPATH=tests exec $(PYTHON_IN_VENV) -m soak $(ARGS)

lock: ## Write the lock files anew from pyproject.toml (ARGS=--upgrade: with the newest versions)
	tools/lock.sh $(ARGS)

clean: ## Remove the demo's data, caches, built files and reports
	@tools/clean.sh

distclean: clean ## Remove the environments, too
	rm -rf .venv .venv-bench .venv-peers .venv-3.* bench/peers/node_modules

setup-run:
	@tools/setup.sh run

setup-bench: setup-dev
	@bench/setup.sh bench

setup-dev:
	@tools/setup.sh dev
