import pytest

from fault_injection import try_all, try_clock, try_sizes, writes


@pytest.mark.parametrize("name", writes())
def test_a_file_is_complete_or_as_before_whichever_operation_or_byte_fails(name, tmp_path):
    assert try_all(writes()[name], tmp_path / name) > 10
    pytest.importorskip("resource", reason="needs limits on the size of files")
    assert try_sizes(writes()[name], tmp_path / name, count=3) > 2


def test_jumps_of_the_clock_change_nothing(tmp_path):
    assert try_clock(tmp_path) > 10
