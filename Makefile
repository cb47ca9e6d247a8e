# One virtual environment from exact pins; every other target builds it when it is missing or stale.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: venv demo test slow lint bench bench-rows clean

venv: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@for python in python3.11 python3; do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done || { echo "Python 3.11 or newer is needed." >&2; exit 1; }; \
	echo "Setting up $(VENV) with $$($$python --version), a minute or two the first time ..."; \
	$$python -m venv --clear $(VENV)
	@$(BIN)/pip install -qq --requirement requirements.lock
	@$(BIN)/pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@

demo: venv
	@mkdir -p build
	$(BIN)/routepack solve tinymoe-mixed --time-limit 5 -o build/demo-plan.json
	$(BIN)/routepack verify tinymoe-mixed build/demo-plan.json

test: venv
	$(BIN)/pytest -n 2 -m "not slow"

slow: venv
	$(BIN)/pytest -m slow
	$(BIN)/pytest -n 2 --hypothesis-profile=thorough tests/test_kernel_*.py tests/test_verify.py

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: venv
	$(BIN)/python benchmarks/bench.py

bench-rows: venv
	$(BIN)/python benchmarks/rows.py

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
