"""Without a GPU, Triton's kernels run in its interpreter; that must be said before Triton is imported."""

import os
from importlib.util import find_spec

import pytest

if find_spec("torch") is None or find_spec("triton") is None:
    pytest.skip("needs relatent[gpu]", allow_module_level=True)

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
