import pytest


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_file(name, content):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write_file
