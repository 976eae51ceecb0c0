import os
import time

import pytest

from relatent.atomic_write import LEFTOVER_SECONDS, check_writable, replacing
from relatent.errors import InputError


def test_old_temporary_files_of_the_same_target_are_removed(tmp_path):
    target = tmp_path / "model[1]"
    old, new, other = (tmp_path / name for name in (".model[1].0a.tmp", ".model[1].0b.tmp", ".model1.0c.tmp"))
    for left in (old, new, other):
        left.touch()
    past = time.time() - LEFTOVER_SECONDS - 1
    os.utime(old, (past, past))
    os.utime(other, (past, past))
    with replacing(target) as part:
        part.write_text("x")
    assert sorted(tmp_path.iterdir()) == sorted([new, other, target])


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_the_longest_name_can_be_written(tmp_path, name):
    check_writable(tmp_path / name)
    with replacing(tmp_path / name) as part:
        part.write_text("x")
    assert os.listdir(tmp_path) == [name]


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="File name too long; give another file or folder"):
        check_writable(tmp_path / ("x" * 256))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="loop is a symbolic link that leads back to itself; give another name"):
        check_writable(loop)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.touch", refuse)
    with pytest.raises(InputError, match=r"model cannot be written: Permission denied; give another file or folder"):
        check_writable(tmp_path / "model")


def test_a_pipe_or_a_device_is_never_replaced(tmp_path):
    pipe, link = tmp_path / "pipe.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for target in (pipe, link):
        with pytest.raises(InputError, match=r"csv is not a plain file; give another name"):
            check_writable(target)
        with pytest.raises(OSError, match="is not a plain file"), replacing(target) as part:
            part.write_text("x")
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "pipe.csv"]
