"""Without a GPU, Triton's kernels run in its interpreter; that must be said before Triton is imported."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if find_spec("torch") is None or find_spec("triton") is None:
    collect_ignore_glob = ["test_*.py"]  # they need relatent[gpu]; `make test-torch` installs it
else:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_modifyitems(items):
    """All tests beside this file need torch."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.torch)
