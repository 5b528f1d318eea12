# Everything here sets up what it needs first; a second call reuses what is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= -m "not full"
# Two more than processors: many tests wait for a server or a kernel. A second thread of BLAS would only be in their way.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(len(os.sched_getaffinity(0)) + 2 if hasattr(os, 'sched_getaffinity') else 'auto')")

.PHONY: help setup demo test test-programs test-full test-all test-servers coverage mutations lab docs check clean

help:
	@echo "make demo    a planted study, and one with a local model: no key needed, results under results/"
	@echo "make test    the tests, with a representative of each long one"
	@echo "make test-all  the same with the full counts: 20 kills, 100 mutated captures, every notebook in the browser"
	@echo "make test-servers  storage and one whole study on each of TOOLKIT_TEST_MONGODB_URIS, and on mongoeco with a Python 3.13"
	@echo "make coverage  simulate studies with a known truth through every statistic: how often they are right (20 minutes)"
	@echo "make mutations  break each guarantee on purpose and see a test notice (minutes)"
	@echo "make lab     JupyterLab on the notebooks"
	@echo "make docs    the documentation as a site in build/docs, with executed notebooks (minutes)"
	@echo "make check   style, types, notebooks, docs, sizes"
	@echo "make setup   only the environment (.venv), tshark and the demo model"
	@echo "make clean   remove the environment and caches; results stay"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt scripts/setup.sh scripts/apt_install.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) bash scripts/setup.sh
	@touch $@

demo: setup
	@$(BIN)/toolkit demo

# What only tests need: a browser, LaTeX, and a reader of PDF.
test-programs:
	@bash scripts/apt_install.sh chromium chromium fonts-dejavu-core
	@bash scripts/apt_install.sh chromedriver chromium-driver
	@bash scripts/apt_install.sh pdflatex texlive-latex-base texlive-latex-recommended
	@bash scripts/apt_install.sh pdftotext poppler-utils

test: setup test-programs
	@PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(TESTS)

# The full counts of what `make test` has a representative of.
test-full:
	@$(MAKE) --no-print-directory test TESTS="-m full"

test-all: test test-full

test-servers: setup
	@$(BIN)/python tests/helpers/servers.py

STUDIES ?= 1000
SEED ?= 20261121
coverage: setup
	@$(BIN)/python tests/coverage/run.py --studies $(STUDIES) --seed $(SEED)

mutations: setup
	@$(BIN)/python tests/helpers/broken_guarantees.py

lab: setup
	@$(BIN)/toolkit lab

docs: setup
	@$(BIN)/python scripts/build_docs.py

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/check_docs.py
	@$(BIN)/python scripts/check_names.py
	@$(BIN)/python scripts/check_size.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build docs/generated *.egg-info
	find toolkit tests -name __pycache__ -type d -exec rm -rf {} +
