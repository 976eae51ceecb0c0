"""Build the embedded Kinships table from the text files of the PyPI package pykeen 1.11.1 (MIT licence).

    pip download --no-deps pykeen==1.11.1 && unzip pykeen-1.11.1-*.whl
    python tools/build_kinships.py pykeen/datasets/kinships src/relatent/data/tables/kinships.txt

A pair of persons has at most one kin term, so the 104 × 104 × 26 tensor is a table of letters: row i, column j holds
"a" for term0, …, "z" for term25, and "." where there is no term. personI is row I and termK is slice K of the tensor
`Rs` in Kemp's alyawarradata.mat; this table equals that tensor in every cell. The text files lack only term23, the
term of a person for himself or herself.
"""

from __future__ import annotations

import sys
from pathlib import Path

N_PERSONS = 104
SELF_TERM = 23


def build(folder: Path) -> str:
    table = [["."] * N_PERSONS for _ in range(N_PERSONS)]
    for name in ("train.txt", "valid.txt", "test.txt"):
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            subject, term, object_ = line.split("\t")
            put(table, number(subject, "person"), number(object_, "person"), number(term, "term"))
    for person in range(N_PERSONS):
        put(table, person, person, SELF_TERM)
    return "".join("".join(row) + "\n" for row in table)


def put(table: list[list[str]], i: int, j: int, term: int) -> None:
    if table[i][j] != ".":
        raise SystemExit(f"person{i} and person{j} have two terms")
    table[i][j] = chr(ord("a") + term)


def number(name: str, prefix: str) -> int:
    return int(name.removeprefix(prefix))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: build_kinships.py FOLDER OUTPUT")
    Path(sys.argv[2]).write_text(build(Path(sys.argv[1])), encoding="utf-8")
