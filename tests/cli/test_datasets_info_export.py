"""Commands about files: datasets, info, export."""

import json
import os

import numpy as np

import relatent
from commands import run


def test_datasets_lists_the_catalog(capsys):
    _, out, _ = run(capsys, "datasets", "--json")
    assert {"presidents", "kinships", "nations", "fb15k-237", "wn18rr", "codex-s"} <= {
        entry["name"] for entry in json.loads(out)["datasets"]
    }


def test_info_describes_data_and_models(capsys, family, model):
    _, out, _ = run(capsys, "info", family, "--json")
    assert json.loads(out)["facts_of_relation"] == {"likes": 3, "parent": 2}
    code, out, _ = run(capsys, "info", model, "--verify", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["kind"], found["rank"], found["verified"]) == ("model", 3, True)
    assert "not checked (--verify" in run(capsys, "info", model)[1]
    assert "not checked" not in run(capsys, "info", model, "--verify")[1]
    code, out, _ = run(capsys, "info", model)
    assert "RescalLogit" in out


def test_a_modified_model_file_is_refused(capsys, model):
    content = bytearray(model.read_bytes())
    content[-3] ^= 1
    model.write_bytes(content)
    for arguments in (("info", model, "--verify"), ("predict", model, "-s", "Ann", "-r", "parent")):
        code, _, err = run(capsys, *arguments)
        assert code == 1
        assert err.count("\n") == 1
        assert "checksum does not match" in err


def test_export_writes_parquet_and_numpy_files(capsys, model, tmp_path):
    import pyarrow.parquet as pq

    code, out, _ = run(capsys, "export", model, tmp_path / "out", "--json")
    assert code == 0
    assert len(json.loads(out)["files"]) == 5
    factors = relatent.load(model)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "A.npy"), factors.A)
    entities = pq.read_table(tmp_path / "out" / "entities.parquet")
    assert entities["name"].to_pylist() == list(factors.entities)
    np.testing.assert_array_equal(np.array(entities["vector"].to_pylist(), np.float32), factors.A)
    relations = pq.read_table(tmp_path / "out" / "relations.parquet")
    np.testing.assert_array_equal(
        np.array(relations["matrix"].to_pylist(), np.float32).reshape(factors.R.shape), factors.R
    )
    assert sorted(os.listdir(tmp_path / "out")) == [
        "A.npy",
        "R.npy",
        "bias.npy",
        "entities.parquet",
        "relations.parquet",
    ]


def test_info_shows_how_a_file_with_bad_rows_is_understood(capsys, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("source,target\n" + "".join(f"a{i},{f'b{i}' if i % 4 else ''}\n" for i in range(40)) + "a\n")
    code, out, _ = run(capsys, "info", str(path), "--json")
    reading = json.loads(out)["reading"]
    assert code == 0
    assert reading["bad_rows"] == "11: lines 2, 6, 10, 14, 18, …"
    assert reading["subject"] == "column 'source'"
    assert "other commands refuse the file" in reading["notes"][0]
    assert "--skip-bad-rows" in reading["notes"][0]
    assert len(reading["notes"]) == 1
    assert json.loads(out)["facts"] == 30
    code, out, _ = run(capsys, "info", str(path))
    assert code == 0
    assert "bad rows" in out
    code, out, _ = run(capsys, "info", str(path), "--json", "--skip-bad-rows")
    assert "bad_rows" not in json.loads(out)["reading"]


def test_info_of_a_file_with_nothing_but_bad_rows_is_the_error(capsys, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("source,target\na,\nb,\n")
    code, _, err = run(capsys, "info", str(path))
    assert code == 1
    assert "f.csv:2: empty object" in err


def test_info_and_fit_name_similar_names(capsys, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("source,target\nVOGEL,Ann\nVogel,Bob\nAnn,Bob\nBob,Cid\nCid,Ann\n")
    code, out, _ = run(capsys, "info", str(path), "--json")
    assert code == 0
    assert json.loads(out)["reading"]["notes"][0].startswith("'VOGEL' and 'Vogel' differ only by case")
    code, _, err = run(capsys, "fit", str(path), "-o", str(tmp_path / "m.relatent"), "--model", "als", "--rank", "2")
    assert code == 0
    assert err.count("differ only by case") == 1
