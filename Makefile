# `make demo` and `make test` need Python 3.11+ and a C compiler; everything else is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test lint types format clean

demo: $(READY)
	$(BIN)/scanweaver demo

test: $(READY)
	$(BIN)/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The stamp makes later calls start at once; torch comes first, so that the rest adapts to the pinned one.
$(READY): pyproject.toml constraints-test.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("ScanWeaver needs Python 3.11 or later, but $(PYTHON) is %d.%d: make PYTHON=python3.x" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints-test.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints-test.txt --editable '.[mlir,cuda,dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist demo_out .pytest_cache .ruff_cache .hypothesis
