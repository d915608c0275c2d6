# Two environments: .venv has what the functions and their tests import, .venv-tools has SAM and the local AWS (each pins
# another botocore). They are made from the pinned requirements, with Python 3.13 and nothing else.

# Without bytecode of the tests each worker would rewrite all their assertions.
unexport PYTHONDONTWRITEBYTECODE

PORT ?= 4566
PYTHON ?= python3.13

# Scripts of a virtual environment name its directory. In a copied or moved checkout the environments are made again.
$(foreach environment,.venv .venv-tools,$(shell \
  cd $(environment) 2>/dev/null && { [ "$$(cat made 2>/dev/null)" = "$$(pwd -P)" ] || rm -f made; }))

.PHONY: demo test test-all build up down verify bench soak mutations assumptions site release check lock clean
.DELETE_ON_ERROR:

demo: setup
	@.venv/bin/python -m tools.local_aws.demo --port $(PORT)

# One more than two cores, because the tests of the deployed stack wait.
WORKERS ?= 3
PYTEST = .venv/bin/python -m pytest -n $(WORKERS)

# A sample of the runs that try everything: minutes. The same each time.
test: setup
	$(PYTEST)

# Every test, and every case of it but those that `make soak` alone has. A search with three workers takes half an hour.
test-all: setup
	$(PYTEST) --all --timeout=3600

# Plain `sam build`, with SAM and Python 3.13 from .venv-tools.
build: .venv-tools/made
	PATH="$(CURDIR)/.venv-tools/bin:$$PATH" SAM_CLI_TELEMETRY=0 SAM_CLI_ENABLE_LANGUAGE_EXTENSIONS=1 sam build

up: setup
	@.venv/bin/python -m tools.local_aws.up --port $(PORT) $(if $(HOST),--host $(HOST)) $(PARAMETERS)

down:
	@.venv/bin/python -m tools.local_aws.down

# Shows on a deployed stack that it does what the README says: make verify STACK=teller-dev. docs/deploying.md
verify: setup
	@.venv/bin/teller verify $(if $(STACK),--stack $(STACK))

# All benchmarks, or those of NAMES, in an environment that has matplotlib, too: uv's, cached.
bench: setup
	@.venv/bin/uv --system-certs run --quiet --no-project --python .venv/bin/python \
	  --with-requirements benchmarks/requirements.txt python -m benchmarks $(NAMES)

# Tests that take hours, or could go on for ever: a million entries; the properties with new and more examples; the whole
# system at random for SOAK_SECONDS on each engine; a cut-over of 20,000 accounts; the deployed stack with its functions
# killed; and with OTHER=revision this version beside that one.
SOAK_SECONDS ?= 600
SOAK_MESSAGES ?= 20000

soak: setup
	@$(PYTEST) --all --soak tests/faults/test_flood.py tests/integration/test_planted_night.py
	@.venv/bin/python -m pytest --hypothesis-profile=searching --timeout=1800 tests/unit tests/checkers tests/faults/test_hostile_input.py tests/integration/test_any_order_of_profiles.py
	@TELLER_SOAK_SECONDS=$(SOAK_SECONDS) .venv/bin/python -m pytest tests/faults/test_machine.py
	@TELLER_CUT_OVER_ACCOUNTS=20000 .venv/bin/python -m pytest --all tests/e2e/test_cut_over.py
	@TELLER_SOAK_MESSAGES=$(SOAK_MESSAGES) TELLER_OTHER_VERSION=$(OTHER) .venv/bin/python -m pytest --all tests/soak

# Tries what is assumed of AWS on each engine of this machine, or with AWS=1 on an account. docs/assumptions.md
assumptions: setup
	@$(if $(AWS),TELLER_ASSUMPTIONS_ON_AWS=1) .venv/bin/python -m tests.assumptions

# Breaks the product on purpose, by machine and by hand, and shows what the quick suite doesn't find. Only the lines that
# changed since a revision: make mutations SINCE=main
mutations: setup
	@.venv/bin/python -m tests.mutations --workers $(WORKERS) $(if $(SINCE),--since $(SINCE))

# In an environment of its own, that is cached: uv's.
RELEASE = .venv/bin/uv --system-certs run --quiet --isolated --no-project --python .venv/bin/python \
  --with-requirements tools/release/requirements.txt

# The pages of both products as a site with search, every link checked: .cache/site/html/index.html
site: setup
	@$(RELEASE) python -m tools.release.site

# The library's wheel and sdist, the bill of materials of the functions' packages, and the hashes of all three: dist/
release: setup
	@rm -rf dist
	@.venv/bin/uv --system-certs build --quiet --python .venv/bin/python --out-dir dist layers/conditional_writes
	@$(RELEASE) cyclonedx-py requirements --output-reproducible --index-url https://pypi.org/simple \
	  --output-file dist/functions.cdx.json layers/dependencies/requirements.txt
	@cd dist && sha256sum *.whl *.tar.gz *.json > SHA256SUMS && cat SHA256SUMS

check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy layers/conditional_writes/conditional_writes layers/conditional_writes/examples \
	  layers/workers/workers layers/ledger/ledger functions/*/app.py tests/typing
	.venv/bin/mypy --python-version 3.12 layers/conditional_writes/conditional_writes
	.venv-tools/bin/sam validate --lint

# Pins the newest versions that the requirements.in files allow, with the hashes of their files on PyPI.
lock: setup
	for folder in benchmarks layers/dependencies tests tools/local_aws tools/release; do \
	  .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.13 --generate-hashes \
	    --no-header --no-emit-index-url --no-emit-find-links $$folder/requirements.in --output-file $$folder/requirements.txt || exit 1; \
	done

clean:
	rm -rf .venv .venv-tools .aws-sam .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache

.PHONY: setup
setup:
	@$(MAKE) --no-print-directory --jobs=2 .venv/made .venv-tools/made

.venv/made: tests/requirements.txt layers/dependencies/requirements.txt | python
	@echo "Making .venv: what the functions and their tests import"
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python tools/install.py tests/requirements.txt
	@printf '../../../../layers/%s\n' conditional_writes workers ledger > .venv/lib/python3.13/site-packages/layers.pth
	@ln -s ../../tools/teller/teller.sh .venv/bin/teller
	@cd .venv && pwd -P > made

.venv-tools/made: tools/local_aws/requirements.txt | python
	@echo "Making .venv-tools: SAM, and the local AWS"
	@$(PYTHON) -m venv --clear .venv-tools
	@.venv-tools/bin/python tools/install.py tools/local_aws/requirements.txt
	@cd .venv-tools && pwd -P > made

.PHONY: python
python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null || { \
	  echo "Teller needs Python 3.13, the version its functions run on: '$(PYTHON)' isn't it." >&2; \
	  echo "Install it (pyenv install 3.13, uv python install 3.13), or name it: make PYTHON=/path/to/python3.13" >&2; \
	  exit 1; }
