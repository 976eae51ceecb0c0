"""The backend of a device that is given by name."""

from __future__ import annotations

import re

from ..errors import InputError
from .protocol import Backend


def gpu(name: str, *, half: bool = True) -> Backend:
    """The backend of a CUDA device; InputError if it is not available."""
    if not isinstance(name, str) or re.fullmatch(r"cuda(:\d+)?", name) is None:
        raise InputError(f"device must be 'cpu', 'cuda' or 'cuda:1', got {name!r}")
    try:
        from . import torch_backend
    except ImportError as problem:
        raise InputError(f"device={name!r} needs PyTorch and Triton: pip install 'relatent[gpu]'") from problem
    torch_backend.check(name)
    return torch_backend.TorchBackend(name, half=half)
