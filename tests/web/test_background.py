"""Results that are computed once, in the background."""

import threading

import pytest

from relatent.web.background import BackgroundResult, InProgress


def test_the_computation_starts_at_the_first_poll_and_runs_once():
    proceed, calls = threading.Event(), []

    def compute(progress):
        calls.append(1)
        progress(1, 3, "computing")
        proceed.wait(10)
        return 42

    result = BackgroundResult(compute)
    assert not calls
    first = result.poll()
    assert isinstance(first, InProgress)
    while (progress := result.poll()).total == 0:
        pass
    assert progress == InProgress("working", 1, 3, "computing")
    proceed.set()
    assert result.wait() == result.poll() == 42
    assert calls == [1]


def test_a_result_waits_for_others_that_share_its_lock():
    lock = threading.Lock()
    result = BackgroundResult(lambda progress: 42, lock)
    with lock:
        assert result.poll() == InProgress("working", 0, 0, "waiting for other work to finish")
    assert result.wait() == 42


def test_a_failure_is_raised_at_every_request():
    def compute(progress):
        raise ValueError("no")

    result = BackgroundResult(compute)
    for request in (result.wait, result.wait, result.poll):
        with pytest.raises(ValueError, match="no"):
            request()


def test_results_that_share_a_lock_are_computed_one_after_the_other():
    lock, running, counts = threading.Lock(), [], []

    def compute(progress):
        running.append(1)
        counts.append(len(running))
        running.pop()
        return True

    results = [BackgroundResult(compute, lock) for _ in range(8)]
    for result in results:
        result.poll()
    assert all(result.wait() for result in results)
    assert set(counts) == {1}
