import threading

import pytest

from relatent.web.background import Once, Working


def test_work_starts_when_first_looked_at_and_is_done_once():
    go, calls = threading.Event(), []

    def work(progress):
        calls.append(1)
        progress(1, 3, "thinking")
        go.wait(10)
        return 42

    once = Once(work, threading.Lock())
    assert not calls
    assert isinstance(once.look(), Working)
    while (far := once.look()) == Working("working", 0, 0, "waiting for its turn"):
        pass
    assert far == Working("working", 1, 3, "thinking")
    assert not once.is_ready
    go.set()
    assert once.wait() == once.look() == 42
    assert calls == [1]
    assert once.is_ready


def test_a_failure_is_told_to_everybody_who_asks():
    def work(progress):
        raise ValueError("no")

    once = Once(work, threading.Lock())
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            once.wait()
    with pytest.raises(ValueError, match="no"):
        once.look()


def test_long_work_is_done_one_piece_at_a_time():
    turn, inside, most = threading.Lock(), [], []

    def work(progress):
        inside.append(1)
        most.append(len(inside))
        inside.pop()
        return True

    several = [Once(work, turn) for _ in range(8)]
    for one in several:
        one.look()
    assert all(one.wait() for one in several)
    assert set(most) == {1}
