# Everything a newcomer needs: make demo, make test. Both create .venv and install the package first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

TORCH := $(VENV)/.torch

# Modules are compiled by the first process that imports them, as pip leaves that out: later processes start 5 s sooner.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-torch test-browser test-fuzz test-lowest docs dist pictures fuzz lint types check check-machines check-no-avx check-avx512 table1 clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $(STAMP)

$(TORCH): $(STAMP)
	$(BIN)/python -m pip install --quiet torch==2.13.0 triton==3.9.0
	touch $(TORCH)

demo: $(STAMP)
	$(BIN)/python tools/demo.py

# What runs on one core goes side by side; the kernels that `check-avx512` compiles are those of `check`, which leaves
# out the numerical tests that have been run by then.
test: lint
	$(MAKE) --jobs 2 types check-machines
	$(MAKE) check TESTS='not numerical'

# What needs torch: GPU kernels, here in Triton's interpreter, and several processes that fit together. A plain `make test`
# does not install it.
test-torch: $(TORCH)
	$(BIN)/python -m pytest -m torch

lint: $(STAMP)
	$(BIN)/ruff format --check src tests benchmarks tools
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/oxlint src/relatent/web/static

types: $(STAMP)
	$(BIN)/mypy

check: $(STAMP)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m '$(TESTS)'

# Numerical tests again with the instructions of other CPUs: once on one thread without AVX in Numba's code and with
# OpenBLAS's kernels for Haswell, and once with its kernels for AVX-512, or without AVX where the CPU has no AVX-512.
NUMERICAL = $(BIN)/python -m pytest -m numerical $$(grep -rl --include '*.py' mark.numerical tests)

check-machines: check-no-avx check-avx512

check-no-avx: $(STAMP)
	OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=generic OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
		$(NUMERICAL)

check-avx512: $(STAMP)
	OPENBLAS_CORETYPE=$$(grep -qs avx512f /proc/cpuinfo && echo SkylakeX || echo Nehalem) $(NUMERICAL)

# The tests with the lowest version of each requirement, which Python 3.11 has: LOWEST_PYTHON names it, LOWEST the folder
# of its virtual environment.
LOWEST_PYTHON ?= python3.11
LOWEST ?= .venv-lowest

test-lowest:
	$(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet $$($(LOWEST_PYTHON) tools/lowest_versions.py)
	NUMBA_CACHE_DIR=$(abspath $(LOWEST))/numba PYTHONPATH=$(CURDIR)/src $(LOWEST)/bin/python -m pytest --numprocesses auto --dist worksteal

# The explorer in a real browser: needs chromium (apt-get install chromium), or CHROMIUM=path to one.
test-browser: $(STAMP)
	$(BIN)/python -m pip install --quiet playwright
	$(BIN)/python -m pytest tests/web/browser

# Random requests to the API, valid and invalid, generated from its OpenAPI document.
test-fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet schemathesis
	$(BIN)/python -m pytest tests/web/test_fuzz.py

# Random files and requests, many of them: FUZZ_CASES for each kind of file, a tenth for each endpoint, 20 times as many
# to compare readers and to attack them. What was found is kept in .hypothesis. Then damaged checkpoints, and file operations that fail.
FUZZ_CASES ?= 5000

fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet schemathesis hypothesis
	RELATENT_FUZZ_CASES=$(FUZZ_CASES) $(BIN)/python -m pytest -m fuzz tests/test_fuzz_files.py tests/web/test_fuzz.py
	$(BIN)/python tests/data/read/compare_readers.py $$((20 * $(FUZZ_CASES)))
	$(BIN)/python tests/data/read/attack_readers.py $$((20 * $(FUZZ_CASES)))
	PYTHONPATH=tests $(BIN)/python tests/fit/damaged_checkpoints.py
	PYTHONPATH=tests $(BIN)/python tests/fault_injection.py

# The documentation site into build/site, strictly, and the tests that need what builds it (a real Jupyter kernel).
docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	$(BIN)/python -m pytest tests/docs/test_site.py tests/docs/test_notebook_kernel.py

# Wheel and source archive in dist/, their metadata checked, and the demo run from the wheel in a new environment.
dist: $(STAMP)
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist build/wheel-venv
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/python -m pip install --quiet dist/*.whl
	build/wheel-venv/bin/python -m pip check
	cd build/wheel-venv && bin/python ../../tools/demo.py && bin/relatent datasets

# The pictures of the command line in README, by running it.
pictures: $(STAMP)
	$(BIN)/python tools/build_terminal_picture.py

table1: $(STAMP)
	$(BIN)/relatent table1

clean:
	rm -rf $(VENV) $(LOWEST) build dist .mypy_cache .ruff_cache .pytest_cache
