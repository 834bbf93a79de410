# setup: environment and install · demo: one real payment, then stays up · up: the service alone
# contracts: compile the Solidity sources (needs Node)
# chainlab: payments, payouts and reorganizations under each profile of a chain; with ONLY="base bsc" those
# race, chaos, kills, poison, soak, tamper, prove, fuzz-model, fuzz-refunds: long forms of tests, a minute to most of an hour
# check: the quick tests, while you work · verify: checks without running anything
# test: verify, and beside it all tests but slow ones; with CI=true those too, and on PostgreSQL · gen, fmt: write
# bench: figures, into build/bench.json and build/bench.md; with ONLY='create verify' those of some subjects
# mutate: small changes of the code, told if no test notices them (an hour or two)
# alone: each test that `test` runs in a process of its own (half an hour)
# shuffle: what `test` runs, 20 times, in other orders and with other seeds (hours)
# notebooks: every notebook, run without Jupyter
# gallery: the analyses' charts and figures in docs/gallery, made anew where they changed
# screenshots: pictures of the hosted pages in docs/pictures · screenshots-check: do they look so still?
# newcomer: from a clone to the first notebook, timed; installs everything anew
# fuzz-api: 20,000 made-up requests, each answer held against the OpenAPI document
# fuzz-wallet: `florin pay` against a lying server and node, 10,000 changed options
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev

.PHONY: setup demo up check test chainlab alone shuffle notebooks gallery screenshots screenshots-check newcomer mutate verify gen bench fuzz-api fuzz-wallet fuzz-model fuzz-refunds race chaos kills failover poison soak tamper prove fmt lock contracts

setup: $(RUN)

$(RUN): requirements.lock pyproject.toml client/pyproject.toml gateway/pyproject.toml gateway/options/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e gateway/options -e gateway -e client -e .
	touch $@

$(DEV): $(RUN) requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	touch $@

demo: $(RUN)
	$(BIN)/florin demo --up

up: $(RUN)
	$(BIN)/florin up

# three on two processors: tests wait for processes of their own for half of the time
PYTEST := TMPDIR="$$($(BIN)/python -m tests.scratch)" $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# what takes minutes: campaigns, benches, browsers, notebooks
ifneq ($(CI),true)
TIER := -m "not slow"
endif

check: $(DEV)
	$(PYTEST) -m "not long and not slow" tests/unit tests/gateway tests/contract/store tests/contract/gateway

# services on PostgreSQL: the store's own tests run on every engine anyway
ON_SERIALIZABLE := tests/contract/payouts tests/contract/settlement/test_settler.py \
	tests/e2e/payouts tests/e2e/payments/test_evm_stories.py tests/e2e/payments/test_idempotency.py
ON_POSTGRES := $(ON_SERIALIZABLE) tests/e2e/payments tests/e2e/accounts tests/e2e/lists \
	tests/chaos/test_kill.py tests/wire/test_golden*.py tests/wire/test_tenancy.py tests/wire/test_remembered.py tests/wire/test_unsafe_text.py

# what verify has to say comes last, where it is read
test: $(DEV)
	@mkdir -p build
	@make --no-print-directory verify > build/verify.log 2>&1 & verify=$$!; \
	$(PYTEST) $(TIER) --durations 30; tests=$$?; \
	wait $$verify; verified=$$?; cat build/verify.log; \
	test $$tests -eq 0 && test $$verified -eq 0
ifeq ($(CI),true)
	FLORIN_TEST_STORE=postgres $(PYTEST) $(ON_POSTGRES)
	FLORIN_TEST_STORE=postgres-serializable $(PYTEST) $(ON_SERIALIZABLE)
else
	@echo 'Left out, as they take minutes: tests that are marked slow. `make test CI=true` runs all there are.'
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

newcomer: $(DEV)
	$(BIN)/python -m tests.newcomer

mutate: $(DEV)
	$(BIN)/python -m tests.mutation

verify: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell *.md client deploy docs examples gateway notebooks protos server tests tools
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python protos/generate.py --check
	$(BIN)/python -m tools.reference --check
	$(BIN)/python -m tools.dashboard --check
	$(BIN)/python protos/lint.py
	$(BIN)/python -m tests.scripts

gen: $(DEV)
	$(BIN)/python protos/generate.py
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.dashboard

bench: $(DEV)
	$(BIN)/python -m tests.bench $(ONLY)

race: $(DEV)
	$(BIN)/python -m tests.chaos.race build/race

chaos: $(DEV)
	$(BIN)/python -m tests.chaos.campaign

kills: $(DEV)
	$(BIN)/python -m tests.chaos.process_kills

failover: $(DEV)
	$(BIN)/python -m tests.chaos.lagged_failover

poison: $(DEV)
	$(BIN)/python -m pytest -n 0 -q -m slow tests/chaos/test_poison.py

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
	$(BIN)/python -m tests.solidity

tamper: $(DEV)
	$(BIN)/python -m tests.chaos.tamper_evm --count 100000
	$(BIN)/python -m tests.chaos.tamper_solana 1000000

fmt: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# client and gateway are in the folder: `setup` installs them from there
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	--no-emit-package florin-client --no-emit-package grpc-rest-gateway --no-emit-package grpc-rest-gateway-options \
	pyproject.toml --extra docs --extra postgres

lock: $(DEV)
	$(COMPILE) -o requirements.lock
	$(COMPILE) --group dev -o requirements-dev.lock

CONTRACTS := server/florin_server/devnet/contracts

contracts:
	mkdir -p build/solc
	cp $(CONTRACTS)/package*.json build/solc/
	cd build/solc && npm ci --ignore-scripts --no-audit --no-fund
	node $(CONTRACTS)/build.mjs $(CONTRACTS)/artifacts.json build/solc
