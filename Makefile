# Every target sets up what it needs in .venv, on a fresh machine with nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help install browser test test-torch test-slow test-cluster test-slurm test-faults test-minimum lint bench reproduce page docs links dist clean
help:
	@echo "make install    the package, editable, in $(VENV)"
	@echo "make test       the test suite on all cores (8 to 13 minutes on two; the first time 2 more to install)"
	@echo "make test-torch tests of ridgeformer.torch, which 'make test' skips where there is no torch (installs it: gigabytes)"
	@echo "make test-slow  tests that take minutes: coverage of confidence intervals"
	@echo "make test-faults  kills, hostile files, damaged runs, full disks, random calls (at most 20 minutes); SEED=13 repeats one"
	@echo "make test-cluster  sweeps on a cluster whose workers and scheduler are killed; 10,000 cells (about 20 minutes)"
	@echo "make test-slurm  a sweep on a real Slurm of one node, started here (needs root and Debian; 1 minute)"
	@echo "make lint       ruff, mypy, and which room may import what"
	@echo "make bench      speed against JAX and PyTorch (about 4 minutes)"
	@echo "make reproduce  Table 1 re-measured, one model trained live, figures and page (three minutes)"
	@echo "make test-minimum  the test suite with the oldest versions of the dependencies that we promise to work with"
	@echo "make page       docs/page: figures, page and screenshot, drawn again from docs/results"
	@echo "make docs       the site, in docs/_build/html: tutorials run, links and accessibility checked (about 8 minutes)"
	@echo "make links      the site's links to the rest of the world, which needs a network"
	@echo "make dist       sdist and wheel in dist, checked: clean installs, the sdist's own tests (about 10 minutes)"

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
	@echo "From the system's packages: chromium, chromium-driver, nodejs, npm, installed now if they are missing and this is Debian's root."
	@echo "Skipped: tests of ridgeformer.torch and comparisons with PyTorch, unless it is in $(VENV) (make test-torch); tests marked slow (make test-slow)."
	@missing=; \
	for pair in chromium:chromium chromedriver:chromium-driver node:nodejs npm:npm; do \
	  command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair##*:}"; done; \
	[ -z "$$missing" ] || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    { apt-get install --yes --quiet --no-install-recommends $$missing || \
	      { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends $$missing; }; } >/dev/null; } || \
	  echo "No$$missing, and they cannot be installed here: tests that need them are skipped."
	@[ -f $(VENV)/npm/node_modules/axe-core/axe.min.js ] || \
	  npm install --prefix $(VENV)/npm --no-save --ignore-scripts --no-audit --no-fund --loglevel=error axe-core@4.14.0 >/dev/null || \
	  echo "axe-core cannot be installed here: tests of accessibility are skipped."

# One thread for BLAS in each of the processes that share the cores: small products are five times slower otherwise.
test: $(VENV)/.installed-test browser
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not site" -n auto --dist worksteal

# PyPI's torch brings CUDA along; for a small one, install it into $(VENV) from PyTorch's own index of CPU builds first.
# Some virtual machines announce the processor's matrix unit (AMX) but do not let oneDNN use it: tests do without it.
test-torch: $(VENV)/.installed-test $(VENV)/.installed-torch
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 \
	  $(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal \
	  tests/torch tests/cli/test_train_torch.py tests/bench/test_modules.py tests/bench/test_step.py

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow --ignore=tests/sweeps

# What sweeps promise, at full size; of each, 'make test' runs a small version. It prints what a tiny cell costs.
test-cluster: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow tests/sweeps --ignore=tests/sweeps/test_slurm.py --capture=no

# Debian's Slurm and munge, run by hand in a folder of their own.
test-slurm: $(VENV)/.installed-test
	@command -v slurmctld >/dev/null && command -v munged >/dev/null || \
	  apt-get install --yes --quiet --no-install-recommends slurm-wlm munge >/dev/null || \
	  { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends slurm-wlm munge >/dev/null; }
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow tests/sweeps/test_slurm.py -rs

# The full attacks of tests/faults, of which 'make test' runs a small version. Atheris has wheels for some Pythons only.
SEED ?= $(shell date +%s)
test-faults: $(VENV)/.installed-test
	@$(PIP) --editable ".[faults]" || echo "Atheris cannot be installed here: readers are attacked by the mutators of this project alone."
	@echo "Seed: $(SEED). The result goes to faults.json; tools/write_docs.py reliability faults.json writes docs/reliability.md."
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults -rs -n auto --dist worksteal --session-timeout 1200 \
	  --faults full --faults-seed $(SEED) --faults-json faults.json

test-minimum:
	$(PYTHON) -m venv --clear .venv-minimum
	$(PYTHON) tools/release.py bounds > .venv-minimum/constraints.txt
	.venv-minimum/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint .venv-minimum/constraints.txt --editable ".[test]"
	OPENBLAS_NUM_THREADS=1 .venv-minimum/bin/python -m pytest -m "not slow and not site" -n auto --dist worksteal

lint: $(VENV)/.installed-lint $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

bench: $(VENV)/.installed-bench
	$(BIN)/ridgeformer bench

reproduce: $(VENV)/.installed
	$(BIN)/ridgeformer reproduce

page: $(VENV)/.installed-test browser
	$(BIN)/ridgeformer report docs/results --out docs/page --formats svg
	$(BIN)/python tools/screenshot.py docs/page/index.html docs/page/screenshot.png

# Warnings are errors. Examples in docstrings are tests; the marker chooses the tests that need the built site.
docs: $(VENV)/.installed-docs $(VENV)/.installed-test browser
	rm -rf docs/_build
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs auto -b html docs docs/_build/html
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/test_docstrings.py tests/test_extending.py -n auto
	$(BIN)/python -m pytest -m site tests/docs
	@echo "The site is docs/_build/html/index.html."

links: $(VENV)/.installed-docs
	$(BIN)/sphinx-build --quiet -b linkcheck docs docs/_build/links

dist: $(VENV)/.installed-dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tools/release.py check dist

clean:
	rm -rf $(VENV) .venv-minimum dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
