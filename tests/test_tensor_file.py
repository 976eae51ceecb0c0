import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from relatent.tensor_file import RefusedFileError, open_tensors, write_tensors

ARRAYS = {
    "A": np.arange(6, dtype=np.float32).reshape(2, 3),
    "count": np.asarray(7),
    "flags": np.array([True, False]),
    "none": np.empty((0, 4)),
    "names": np.frombuffer(b"abc", np.uint8),
}


def test_the_format_is_that_of_safetensors(tmp_path):
    write_tensors(ARRAYS, tmp_path / "ours", {"about": "x"})
    save_file(ARRAYS, tmp_path / "theirs", {"about": "x"})
    theirs = load_file(tmp_path / "ours")
    with open_tensors(tmp_path / "theirs") as file:
        assert file.metadata == {"about": "x"}
        for name, array in ARRAYS.items():
            for found in (file.read(name), theirs[name]):
                assert found.dtype == array.dtype
                np.testing.assert_array_equal(found, array)


def test_a_file_that_is_truncated_while_it_is_read_is_refused(tmp_path):
    path = tmp_path / "file"
    write_tensors({"A": np.ones(100_000)}, path, {})
    with open_tensors(path) as file:
        os.truncate(path, 5_000)
        with pytest.raises(RefusedFileError, match="became shorter while it was read"):
            file.read("A")


@pytest.mark.parametrize(
    "header",
    [
        '{"A":{"dtype":"F64","shape":[1],"data_offsets":[0,16]}}',
        '{"A":{"dtype":"F64","shape":[-1],"data_offsets":[0,-8]}}',
        '{"A":{"dtype":"F64","shape":[true],"data_offsets":[0,8]}}',
        '{"A":{"dtype":"F64","shape":[1.0],"data_offsets":[0,8]}}',
        '{"A":{"dtype":"Q9","shape":[1],"data_offsets":[0,8]}}',
        '{"A":{"dtype":"F64","shape":[1],"data_offsets":[8,16]}}',
        '{"A":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"B":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}',
        '{"__metadata__":{"a":1}}',
        '{"__metadata__":[]}',
        '{"A":5}',
        "[]",
    ],
)
def test_a_header_that_does_not_describe_the_file_is_refused(tmp_path, header):
    path = tmp_path / "file"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(8))
    with pytest.raises(RefusedFileError, match=r"is truncated or damaged|is not a relatent model"), open_tensors(path):
        pass
