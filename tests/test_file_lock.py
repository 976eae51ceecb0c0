"""A lock has one holder, whoever asks, and ends with its process."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from relatent.file_lock import locked

HOLDS = """
import sys, time
from relatent.file_lock import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(100)
"""
COUNTS = """
import sys
from pathlib import Path
from relatent.file_lock import locked
path = Path(sys.argv[1])
for _ in range(200):
    with locked(path, wait_seconds=60):
        path.write_text(str(int(path.read_text()) + 1))
"""


def test_a_second_holder_waits_or_is_refused(tmp_path):
    path = tmp_path / "file"
    with locked(path):
        with pytest.raises(BlockingIOError, match="is in use by another process"), locked(path):
            pass
        started = time.monotonic()
        with pytest.raises(BlockingIOError), locked(path, wait_seconds=0.1):
            pass
        assert time.monotonic() - started >= 0.1
        with locked(tmp_path / "other"):
            pass
    with locked(path):
        pass
    assert not list(tmp_path.iterdir())


def test_a_link_is_the_file_that_it_leads_to(tmp_path):
    os.symlink("file", tmp_path / "link")
    with locked(tmp_path / "file"), pytest.raises(BlockingIOError), locked(tmp_path / "link"):
        pass


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path):
    path = tmp_path / "file"
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(BlockingIOError), locked(path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with locked(path):
        pass
    assert not list(tmp_path.iterdir())


def test_no_increment_of_several_processes_is_lost(tmp_path):
    path = tmp_path / "count"
    path.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNTS, str(path)]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert path.read_text() == "600"


def test_a_holder_that_waits_gets_the_lock_of_the_file_that_is_there(tmp_path):
    """The first holder removes the file of the lock when it ends."""
    path, order = tmp_path / "file", []

    def hold(name):
        with locked(path, wait_seconds=10):
            order.append(name)
            time.sleep(0.05)
            order.append(name)

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(order) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(order[i] == order[i + 1] for i in range(0, 8, 2))


def test_a_folder_that_is_not_there_is_an_error_of_its_own(tmp_path):
    with pytest.raises(FileNotFoundError), locked(tmp_path / "nowhere" / "file"):
        pass
