# From a fresh clone: `make demo`, `make quick` (90 seconds), `make test` (everything). They set up .venv on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests start many processes, and each would compile the package anew where this variable keeps Python from storing it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo quick test test-cuda test-cluster extremes fuzz fuzz-guided torture docs install lint types pytest format clean

demo: $(VENV)/.demo
	$(BIN)/pucl demo

# For a first change: the linter and the tests that are quick and need no GPU.
quick: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not cuda and not cluster"

test: lint types pytest

# Before a change of anything that touches a device.
test-cuda: $(VENV)/.dev
	$(BIN)/python -m pytest -m cuda

# Before a change of anything that other engines run: Ray on this machine, Spark (which needs Java), Dask, DuckDB.
test-cluster: $(VENV)/.cluster
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m cluster
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/test_docs.py -k large-data

# Before a change of anything that computes: every component on extreme numbers, about ten minutes. `make test` has a part.
# LARGE=1 takes one row repeated 100,000 times instead.
extremes: $(VENV)/.dev
	cd tests && PYTHONPATH=../src OMP_NUM_THREADS=1 ../$(BIN)/python -m extremes $(if $(LARGE),--large)

# Faults at random moments of every command that writes, and a table of what was survived; it needs Linux.
# The same seed gives the same faults: make torture SEED=7 FAULTS=50. A short form is a part of `make test`.
FAULTS ?= 200
SEED   ?= 0
torture: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m torture --faults $(FAULTS) --seed $(SEED)

# Damaged and hostile files for every reader, in limited processes, and a table of what came of them; it needs Linux.
# The same seed gives the same files: make fuzz SEED=7 INPUTS=2000. A short form is a part of `make test`.
INPUTS ?= 200
fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz --inputs $(INPUTS) --seed $(SEED)

# The same readers, guided by what inputs reach in the code. atheris is installed by hand: .venv/bin/pip install atheris
SECONDS ?= 60
fuzz-guided: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz.guided --seconds $(SECONDS) --seed $(SEED)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

pytest: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "not cluster"

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The tests with the lowest versions that pyproject.toml allows, and with the newest of everything. The lowest torch is
# the build for CUDA unless pip finds another one (several GB); the newest run keeps the torch of constraints.txt unless
# told otherwise: make test-newest TORCH=torch. QUICK=1 leaves the slow tests out.
.PHONY: test-lowest test-newest lock
LOWEST := .venv-lowest/bin/python
NEWEST := .venv-newest/bin/python
TORCH  ?= $(shell grep '^torch==' constraints.txt)
PARTS  := not cuda and not cluster$(if $(QUICK), and not slow)
AGAIN  := -m pip install --quiet --disable-pip-version-check -e '.[plots,dev]'
test-lowest:
	test -x $(LOWEST) || $(PYTHON) -m venv .venv-lowest
	$(LOWEST) $(AGAIN) -c constraints-lowest.txt
	OMP_NUM_THREADS=1 $(LOWEST) -m pytest -n auto --dist worksteal -m "$(PARTS)"

test-newest:
	test -x $(NEWEST) || $(PYTHON) -m venv .venv-newest
	$(NEWEST) $(AGAIN) --upgrade --upgrade-strategy eager '$(TORCH)'
	OMP_NUM_THREADS=1 $(NEWEST) -m pytest -n auto --dist worksteal -m "$(PARTS)"

# Renew constraints.txt: the newest versions of what CI installs, for the torch that it names.
lock: | $(BIN)/python
	.ci/lock $(BIN)/python

# The documentation as a site that works offline, in site/; a warning is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html. Search needs a server: $(PYTHON) -m http.server -d site, then http://localhost:8000"

install: $(VENV)/.dev

# What builds the package is held to the same versions, by the versions of pip that let a constraint do that.
$(VENV)/.%: export PIP_CONSTRAINT := constraints.txt

# The stamps are renewed only when what is installed changes.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[plots]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[plots,dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.cluster: pyproject.toml constraints.txt | $(VENV)/.dev
	$(PIP) -e '.[cluster]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) .venv-lowest .venv-newest .mypy_cache .ruff_cache .pytest_cache build dist site
