import pytest

from fault_injection import try_all, writes


@pytest.mark.parametrize("name", writes())
def test_a_file_is_complete_or_as_before_whichever_operation_fails(name, tmp_path):
    assert try_all(writes()[name], tmp_path / "file") > 20
