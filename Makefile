# Every target sets up what it needs in .venv, on a fresh machine with nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help install browser test test-slow lint bench reproduce docs clean
help:
	@echo "make install    the package, editable, in $(VENV)"
	@echo "make test       the test suite on all cores (about 5 minutes on two; the first time 2 more to install)"
	@echo "make test-slow  tests that take minutes: coverage of confidence intervals"
	@echo "make lint       ruff, mypy, and which room may import what"
	@echo "make bench      speed against JAX and PyTorch (about 4 minutes)"
	@echo "make reproduce  Table 1 re-measured, one model trained live, figures and page (three minutes)"
	@echo "make docs       docs/page: figures, page and screenshot, drawn again from docs/results"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(PIP) --editable ".[$*]"
	@touch $@

install: $(VENV)/.installed

# The page is tested in Chromium, by Debian's names; where it cannot be installed, those tests say so and are skipped.
browser:
	@echo "From the system's packages: chromium, chromium-driver, nodejs, installed now if they are missing and this is Debian's root."
	@echo "Skipped: comparisons with PyTorch, unless it is in $(VENV); tests marked slow (make test-slow)."
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v node >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    { apt-get install --yes --quiet --no-install-recommends chromium chromium-driver nodejs || \
	      { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium chromium-driver nodejs; }; } \
	    >/dev/null; } || \
	  echo "No Chromium, driver or Node, and they cannot be installed here: tests that need them are skipped."

# One thread for BLAS in each of the processes that share the cores: small products are five times slower otherwise.
test: $(VENV)/.installed-test browser
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.installed-lint $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

bench: $(VENV)/.installed-bench
	$(BIN)/ridgeformer bench

reproduce: $(VENV)/.installed
	$(BIN)/ridgeformer reproduce

docs: $(VENV)/.installed-test browser
	$(BIN)/ridgeformer report docs/results --out docs/page --formats svg
	$(BIN)/python tools/screenshot.py docs/page/index.html docs/page/screenshot.png

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
