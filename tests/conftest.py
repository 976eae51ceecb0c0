"""pytest puts this folder on the path of imports, so that tests can say `import small_graphs`."""

import signal
from functools import cache
from importlib.util import find_spec

import numba
import pytest

from relatent.backend.blas_threads import one_blas_thread
from relatent.evaluation.parallel import fit_threads


def pytest_configure():
    """Ctrl-C is Ctrl-C here, also where the tests were started in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def single_blas():
    """As a fit runs: the tiles are the threads."""
    with one_blas_thread():
        yield


@pytest.fixture
def one_thread():
    """Fits use one thread: a fit of tiny data takes half the CPU time then, and several tests run at once."""
    with fit_threads(1):
        yield


@pytest.fixture
def all_threads():
    """Fits use all threads again, as they do for users."""
    with fit_threads(numba.config.NUMBA_NUM_THREADS):
        yield


@cache
def has_gpu() -> bool:
    """Whether there is a CUDA device, and what it takes to use it."""
    if find_spec("torch") is None or find_spec("triton") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def pytest_runtest_setup(item):
    """Tests that need a GPU say so where there is none."""
    if item.get_closest_marker("gpu") is not None and not has_gpu():
        pytest.skip("needs a CUDA device and relatent[gpu]")
