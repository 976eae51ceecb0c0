import os
import subprocess
import sys

import pytest

from relatent import compile_cache


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No folder that Numba would use can be written; temporary files go to a folder of the test."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(compile_cache, "_is_writable", lambda folder: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    return tmp_path


def test_compiled_code_goes_to_a_private_temporary_folder(nowhere, capsys):
    compile_cache.ensure_cache_folder()
    folder = nowhere / f"relatent-numba-{os.getuid()}"
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    said = capsys.readouterr().err
    assert said == f"note: compiled code is kept in {folder}; set NUMBA_CACHE_DIR to a folder that can be written\n"


def test_a_folder_that_others_can_write_to_is_not_used(nowhere):
    folder = nowhere / f"relatent-numba-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    compile_cache.ensure_cache_folder()
    assert os.environ["NUMBA_CACHE_DIR"] != str(folder)
    assert os.stat(os.environ["NUMBA_CACHE_DIR"]).st_mode & 0o777 == 0o700


def test_without_any_folder_functions_are_compiled_without_a_cache():
    code = """
import tempfile
from relatent import compile_cache
compile_cache._is_writable = lambda folder: False
def none():
    raise FileNotFoundError("no usable temporary directory")
tempfile.gettempdir = none
compile_cache.ensure_cache_folder()
from numba import njit
@njit(cache=True)
def one():
    return 1
"""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "there is no folder to keep compiled code in" in done.stderr
