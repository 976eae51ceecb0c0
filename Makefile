# Everything a newcomer needs: make demo, make test. Both create .venv and install the package first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

TORCH := $(VENV)/.torch

.PHONY: demo test test-torch test-browser test-fuzz lint types check check-machines table1 clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

$(TORCH): $(STAMP)
	$(BIN)/python -m pip install --quiet torch==2.13.0 triton==3.9.0
	touch $(TORCH)

demo: $(STAMP)
	$(BIN)/python tools/demo.py

test: lint types check check-machines

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
	$(BIN)/python -m pytest --numprocesses auto

# Numerical tests again with the instructions of other CPUs: once on one thread without AVX in Numba's code and with
# OpenBLAS's kernels for Haswell, and once with its kernels for AVX-512, or without AVX where the CPU has no AVX-512.
check-machines: $(STAMP)
	OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=generic OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
		$(BIN)/python -m pytest --numprocesses auto -m numerical
	OPENBLAS_CORETYPE=$$(grep -qs avx512f /proc/cpuinfo && echo SkylakeX || echo Nehalem) \
		$(BIN)/python -m pytest --numprocesses auto -m numerical

# The explorer in a real browser: needs chromium (apt-get install chromium), or CHROMIUM=path to one.
test-browser: $(STAMP)
	$(BIN)/python -m pip install --quiet playwright
	$(BIN)/python -m pytest tests/web/browser

# Random requests to the API, valid and invalid, generated from its OpenAPI document.
test-fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet schemathesis
	$(BIN)/python -m pytest tests/web/test_fuzz.py

table1: $(STAMP)
	$(BIN)/relatent table1

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
