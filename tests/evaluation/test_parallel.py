"""Fits in one process or several."""

import multiprocessing
import warnings

import numba
import pytest

import relatent
from relatent.errors import ConvergenceWarning, InputError
from relatent.evaluation import parallel
from relatent.evaluation.parallel import captured_warnings, fit_threads, n_processes, run_tasks, threads_for
from small_graphs import blocks, random_facts


def test_small_and_large_data_run_in_one_process(monkeypatch):
    monkeypatch.setattr(parallel.joblib, "cpu_count", lambda: 7)
    assert n_processes(None, random_facts()) == 1
    assert n_processes(None, relatent.load_dataset("kinships")) == 7
    assert n_processes(3, random_facts()) == 3
    monkeypatch.setattr(parallel, "MAX_ENTITIES_ONE_THREAD", 50)
    assert n_processes(None, relatent.load_dataset("kinships")) == 1
    with pytest.raises(InputError, match="n_jobs must be at least 1, got 0"):
        n_processes(0, random_facts())


def test_a_worker_process_starts_no_others(monkeypatch):
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    assert n_processes(None, relatent.load_dataset("kinships")) == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order_if_asked(jobs):
    assert list(run_tasks(pow, [(n, 2) for n in range(5)], jobs, in_order=True)) == [0, 1, 4, 9, 16]
    assert sorted(run_tasks(pow, [(n, 2) for n in range(5)], jobs, in_order=False)) == [0, 1, 4, 9, 16]


def test_threads_are_limited_and_restored():
    before = numba.get_num_threads()
    with fit_threads(1):
        assert numba.get_num_threads() == 1
        with fit_threads(None):
            assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == before


def test_small_fits_have_one_thread(monkeypatch):
    assert threads_for(blocks(24)) == 1
    monkeypatch.setattr(parallel, "MAX_ENTITIES_ONE_THREAD", 23)
    assert threads_for(blocks(24)) is None


def test_own_warnings_are_listed_and_others_issued():
    def warn_twice():
        with captured_warnings() as categories:
            warnings.warn("ours", ConvergenceWarning, stacklevel=1)
            warnings.warn("not ours", UserWarning, stacklevel=1)
        return categories

    with pytest.warns(UserWarning, match="not ours") as issued:
        categories = warn_twice()
    assert categories == [ConvergenceWarning]
    assert len(issued) == 1
