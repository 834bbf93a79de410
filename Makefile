# help: list these targets
# setup: create .venv and install Florin with the sandbox · install: the same without the sandbox, for production
# demo: start the service and make one payment · up: start the service
# check: run the quick tests · verify: check format, types, imports and generated files, without tests
# test: run verify and all tests except slow ones; with CI=true also those, and PostgreSQL
# fmt: format and fix · gen: generate code, documents and the dashboard · lock: renew the pinned requirements
# race, chaos, kills, failover, poison, soak, tamper, prove, fuzz-model, fuzz-refunds: long forms of tests, up to an hour
# chaos-both: chaos runs with 10,000 payments on SQLite and 10,000 on PostgreSQL (hours)
# chainlab: payments, payouts and reorganizations on each kind of chain; ONLY="base bsc" selects some
# fuzz-api: send 20,000 generated requests, and compare each answer with the OpenAPI document
# fuzz-wallet: run `florin pay` against a lying server and node, with 10,000 changed options
# mutate: change the code in small ways, and list the changes that no test detects (an hour or two)
# alone: run each test of `test` in its own process (half an hour)
# shuffle: run the tests of `test` 20 times, in other orders and with other seeds (hours)
# bench: measure, and write build/bench.json and build/bench.md; ONLY='create verify' selects some subjects
# notebooks: run every notebook without Jupyter
# gallery: run the analyses, and update docs/gallery where the results differ
# docs: build the site of the documents into build/site, and check its links
# diagrams: draw the diagrams of the documents for the site, after one has changed (needs Node)
# screenshots: update the pictures and sheets of pages · screenshots-check: compare the pages with them
# newcomer: time the way from a clone to the first notebook; installs everything again
# stopwatch: time the way from built wheels, and from the packed npm client, to a payment; ONLY="wheels" selects one
# contracts: compile the Solidity sources (needs Node)
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# installed last, and touched: newer than what they were installed from
RUN := $(BIN)/florin
DEV := $(BIN)/pytest

# Python keeps what it compiles, even where the environment forbids it, as images of containers do:
# otherwise each worker of the tests rewrites all of them again
unexport PYTHONDONTWRITEBYTECODE

# an installation that failed is not taken for a finished one
.DELETE_ON_ERROR:

.PHONY: help setup install demo up check test chainlab alone shuffle notebooks gallery screenshots screenshots-check diagrams newcomer stopwatch mutate verify docs gen bench fuzz-api fuzz-wallet fuzz-model fuzz-refunds race chaos chaos-both kills failover poison soak tamper prove fmt lock contracts

setup: $(RUN)

# the comments at the top of this file
help:
	@sed -n '/^#/!q; s/^# //p' $(firstword $(MAKEFILE_LIST))

# installs what uv.lock names, with hashes; keeps what you installed besides; trusts what the system trusts, as pip does
UV_VERSION := 0.13.9
SYNC := UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_SYSTEM_CERTS=true $(BIN)/uv sync --quiet --frozen --inexact --no-default-groups --extra docs --extra postgres

# there while something is installed: an installation that was killed left it, and the next one installs all again
UNFINISHED := $(VENV)/.unfinished
ifneq ($(wildcard $(UNFINISHED)),)
AGAIN := --reinstall
.PHONY: $(BIN)/uv $(RUN) $(DEV)
endif

# one sentence below the errors of pip and uv
STOPPED = { echo 'Florin is not installed: see the error above. Packages come from pypi.org; behind a proxy set HTTPS_PROXY, for a mirror PIP_INDEX_URL and UV_DEFAULT_INDEX. Then run `make $(or $(MAKECMDGOALS),setup)` again.' >&2; exit 1; }
install_packages = echo 'Installing the packages of uv.lock in $(VENV).'; touch $(UNFINISHED) && $(SYNC) $(AGAIN) $(1) && rm $(UNFINISHED) || $(STOPPED)

# the range of `requires-python`
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))
NO_PYTHON = { echo '$(PYTHON) is missing, or is not Python 3.11 to 3.14: name one that this machine has, such as `make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12`.' >&2; exit 1; }
HAS_PIP := $(BIN)/python -m pip --version >/dev/null 2>&1

# an environment with another Python, or without pip as its making was interrupted, is made again
$(BIN)/uv:
	@$(BIN)/python -c '$(FITS)' 2>/dev/null && { $(HAS_PIP) || { $(BIN)/python -m ensurepip >/dev/null 2>&1 && $(HAS_PIP); }; } || \
		{ $(PYTHON) -c '$(FITS)' 2>/dev/null || $(NO_PYTHON); $(PYTHON) -m venv --clear $(VENV); }
	@touch $(UNFINISHED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(AGAIN),--force-reinstall) uv==$(UV_VERSION) || $(STOPPED)
	@touch $@

$(RUN): $(BIN)/uv uv.lock $(addsuffix /pyproject.toml,. client gateway gateway/options sandbox)
	@$(call install_packages,--extra sandbox)
	@touch $@

# for production: with the archive and the event sink, without the sandbox and the tools; `florin` stays old, so that `setup` adds the sandbox
install: $(BIN)/uv
	@$(call install_packages,--extra export --extra nats --compile-bytecode)
	@touch -t 200001010000 $(RUN)

$(DEV): $(RUN)
	@$(call install_packages,--extra sandbox --group dev --group docs)
	@touch $@

demo: $(RUN)
	$(BIN)/florin demo --up

up: $(RUN)
	$(BIN)/florin up

# four workers on two processors: many tests wait for other processes
PYTEST := TMPDIR="$$($(BIN)/python -m tests.scratch)" $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

# without CI, tests that take minutes are left out: campaigns, benches, browsers, notebooks
ifneq ($(CI),true)
TIER := -m "not slow"
endif

# the tests of the nouns' stores
OF_STORE := $(wildcard tests/contract/*/test_store_*.py tests/contract/*/*/test_store_*.py)

# on SQLite, since PostgreSQL has to be started; all else runs on both
check: $(DEV)
	FLORIN_TEST_STORES="$${FLORIN_TEST_STORES:-sqlite}" $(PYTEST) -m "not long and not slow" tests/unit tests/gateway tests/contract/gateway $(OF_STORE) \
		tests/contract/api/test_public_contract.py

# tests of services that run again on PostgreSQL; the store's own tests run on every engine anyway
ON_SERIALIZABLE := $(wildcard tests/contract/money/payouts/test_pay*.py) tests/contract/money/refunds \
	tests/contract/money/ledger/test_reconciliation.py tests/contract/money/settlement/test_settler.py \
	tests/e2e/payouts tests/e2e/refunds tests/e2e/evm/test_evm_methods.py tests/e2e/idempotency
OF_SERVICES := accounts/test_own_accounts.py api/test_deadlines.py api/test_grpc_server.py \
	idempotency/test_guarded_keys.py money/ledger/test_late_money.py rails/connection/test_nodes.py \
	money/payments/test_builds.py money/payments/test_confirm.py money/payments/test_confirm_races.py \
	money/payments/test_lists.py money/payments/test_lists_model.py rails/evm/test_lapsed_quotes.py rails/evm/test_front_runners.py \
	rails/pricing/test_prices.py sandbox/test_demo_accounts.py sandbox/test_triggers.py
ON_POSTGRES := $(ON_SERIALIZABLE) $(OF_SERVICES:%=tests/contract/%) \
	tests/e2e/accounts tests/e2e/api tests/e2e/evm tests/e2e/payments \
	$(wildcard tests/contract/money/settlement/test_*addresses.py tests/contract/money/settlement/test_stray*.py \
	tests/contract/money/settlement/test_deposit_*.py) \
	tests/chaos/test_kill.py tests/wire/test_golden*.py tests/wire/test_tenancy.py tests/wire/test_account_cache.py tests/wire/test_unsafe_text.py

# the output of verify is printed last, where it is seen
test: $(DEV)
	@mkdir -p build
	@make --no-print-directory verify > build/verify.log 2>&1 & verify=$$!; \
	$(PYTEST) $(TIER) --durations 30; tests=$$?; \
	wait $$verify; verified=$$?; cat build/verify.log; \
	test $$tests -eq 0 && test $$verified -eq 0
ifeq ($(CI),true)
	@# together, as the longest test of a list ends when its other tests are over
	@FLORIN_TEST_STORE=postgres-serializable $(PYTEST) -n 2 $(ON_SERIALIZABLE) > build/serializable.log 2>&1 & \
	serializable=$$!; FLORIN_TEST_STORE=postgres $(PYTEST) -n 3 $(ON_POSTGRES); tests=$$?; \
	wait $$serializable; others=$$?; cat build/serializable.log; test $$tests -eq 0 && test $$others -eq 0
	FLORIN_TEST_STORES=postgres-partitioned $(PYTEST) -m "not slow" $(OF_STORE)
else
	@echo 'Tests that are marked slow did not run. `make test CI=true` runs them too.'
endif

chainlab: $(DEV)
	$(BIN)/python -m tests.support.chainlab $(ONLY)

alone: $(DEV)
	$(PYTEST) -p tests.alone $(TIER)

shuffle: $(DEV)
	$(BIN)/python -m tests.shuffle $(TIER)

notebooks: $(DEV)
	$(BIN)/python -m pytest -n 0 --durations 20 tests/notebooks

gallery: $(DEV)
	$(BIN)/python -m tools.gallery

screenshots: $(DEV)
	$(BIN)/python -m tests.screenshots

screenshots-check: $(DEV)
	$(BIN)/python -m tests.screenshots --check

diagrams: $(DEV)
	$(BIN)/python -m tests.diagrams

newcomer: $(DEV)
	$(BIN)/python -m tests.newcomer

stopwatch: $(DEV)
	$(BIN)/python -m tools.stopwatch $(ONLY)

mutate: $(DEV)
	$(BIN)/python -m tests.mutation

verify: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell *.md client contracts deploy docs examples gateway notebooks protos sandbox server tests tools
	$(BIN)/uv lock --quiet --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python protos/generate.py --check
	$(BIN)/python -m tools.reference --check
	$(BIN)/python -m tools.dashboard --check
	$(BIN)/python -m tools.badges --check
	$(BIN)/python -m tools.noun_index --check
	$(BIN)/python -m tools.public_contract
	$(BIN)/python protos/lint.py
	$(BIN)/python -m tests.scripts
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

gen: $(DEV)
	$(BIN)/python protos/generate.py
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.dashboard
	$(BIN)/python -m tools.badges
	$(BIN)/python -m tools.noun_index

bench: $(DEV)
	$(BIN)/python -m tests.bench $(ONLY)

race: $(DEV)
	$(BIN)/python -m tests.chaos.race build/race

chaos: $(DEV)
	$(BIN)/python -m tests.chaos.campaign

chaos-both: $(DEV)
	$(BIN)/python -m tests.chaos.campaign --payments 500 --seeds 20 --engine sqlite --engine postgres

kills: $(DEV)
	$(BIN)/python -m tests.chaos.process_kills

failover: $(DEV)
	$(BIN)/python -m tests.chaos.lagged_failover

poison: $(DEV)
	FLORIN_POISON_EVERY=1 $(BIN)/python -m pytest -n 0 -q -m slow tests/chaos/test_poison.py

soak: $(DEV)
	$(BIN)/python -m tests.chaos.soak

fuzz-model: $(DEV)
	$(BIN)/python -m tests.model

fuzz-refunds: $(DEV)
	$(BIN)/python -m tests.model.refunds

fuzz-api: $(DEV)
	$(BIN)/python -m tests.fuzz

fuzz-wallet: $(DEV)
	$(BIN)/python -m tests.fuzz.payer

prove: $(DEV)
	$(BIN)/python -m contracts.proofs

tamper: $(DEV)
	$(BIN)/python -m tests.chaos.tamper_evm --count 100000
	$(BIN)/python -m tests.chaos.tamper_solana 1000000

fmt: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(DEV)
	$(BIN)/uv lock --upgrade

TEST_CONTRACTS := sandbox/florin_sandbox/devnet/contracts

contracts:
	mkdir -p build/solc
	cp contracts/package*.json build/solc/
	cd build/solc && npm ci --ignore-scripts --no-audit --no-fund
	node contracts/build.mjs build/solc contracts/src server/florin_server/rails/evm/setup/artifacts.json build/contracts
	node contracts/build.mjs build/solc $(TEST_CONTRACTS) $(TEST_CONTRACTS)/artifacts.json
