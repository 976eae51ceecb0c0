"""Known data sets: some embedded in the package, the others downloaded once and checked.

Downloads are kept as `<home>/<data set>/<original file name>`, where home is the environment variable
RELATENT_DATA_HOME or else the platform's user cache. Each file is checked against its sha256 whenever it is read.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, DownloadError, UnknownNameError
from .facts import Facts
from .names import Names
from .read.formats import parse_tsv
from .union import over_one_vocabulary, union

_SPLITS = ("train.txt", "valid.txt", "test.txt")
_LARGEST_MEMBER = 256 << 20  # bytes an archive may unpack to in memory, a file


@dataclass(frozen=True)
class Dataset:
    """What the catalog knows of a data set before it is loaded."""

    name: str
    title: str
    n_entities: int
    n_relations: int
    n_facts: int
    embedded: bool  # comes with the package, no download
    splits: bool  # has training, validation and test facts of its own
    source: str
    licence: str


class _Remote(NamedTuple):
    file: str
    sha256: str
    url: str


_CONVE = "https://github.com/TimDettmers/ConvE/raw/f3c0eb286025410fa5b4c04696c918264163d0ca"
_CODEX = "https://raw.githubusercontent.com/tsafavi/codex/3132e426c2a6b643b70bad679905a3a6270be440/data/triples/codex-s"
_ALMC = "https://raw.githubusercontent.com/dongwookim-ml/almc/4d9e15a16cbf28897ae3e5c048a93dca46030dd8/data/nation"

_REMOTE: dict[str, tuple[_Remote, ...]] = {
    "nations": (
        _Remote(
            "dnations.mat",
            "c8317e39bdf831957a3b3748c8b9135ea44f4d5afad2f735e0d61bef9fd7f5ab",
            f"{_ALMC}/dnations.mat",
        ),
    ),
    "fb15k-237": (
        _Remote(
            "FB15k-237.tar.gz",
            "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8",
            f"{_CONVE}/FB15k-237.tar.gz",
        ),
    ),
    "wn18rr": (
        _Remote(
            "WN18RR.tar.gz",
            "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060",
            f"{_CONVE}/WN18RR.tar.gz",
        ),
    ),
    "codex-s": (
        _Remote(
            "train.txt",
            "64f93b7f314f3936a6f65739721429db3f6a7c8f5a1e1104ec3bb544f7434f59",
            f"{_CODEX}/train.txt",
        ),
        _Remote(
            "valid.txt",
            "3831c0e57daef03c3a18cdd1a72e370b496f696c5218883d35c7d2ab8a6a772c",
            f"{_CODEX}/valid.txt",
        ),
        _Remote(
            "test.txt",
            "27127fcb34688c4778e88a39ef3c9b540807da846021e9d9685660ac1838aca1",
            f"{_CODEX}/test.txt",
        ),
    ),
}

_DATASETS = (
    Dataset(
        name="presidents",
        title="Presidents and vice presidents of the United States and their parties, to Obama and Biden",
        n_entities=90,
        n_relations=3,
        n_facts=209,
        embedded=True,
        splits=False,
        source="rebuilt from public facts; the file of the RESCAL papers (93 entities) is not public",
        licence="facts, free to use",
    ),
    Dataset(
        name="kinships",
        title="Kin terms that 104 members of the Alyawarra use for each other",
        n_entities=104,
        n_relations=26,
        n_facts=10_790,
        embedded=True,
        splits=False,
        source="Denham (1973), Kemp et al. (2006), as distributed with pykeen 1.11.1",
        licence="MIT (pykeen)",
    ),
    Dataset(
        name="ecoli-ppi",
        title="Interactions of E. coli proteins, in both directions; a stand-in for Bacteriome",
        n_entities=1_121,
        n_relations=1,
        n_facts=10_990,
        embedded=True,
        splits=False,
        source="5,495 undirected interactions; not comparable with results on Bacteriome",
        licence="facts; original terms not stated",
    ),
    Dataset(
        name="nations",
        title="Dimensionality of Nations: 56 relations and 111 attributes of 14 countries, 1950 to 1965",
        n_entities=14,
        n_relations=56,
        n_facts=2_024,
        embedded=False,
        splits=False,
        source="Rummel (1976), Kemp et al. (2006), from dongwookim-ml/almc",
        licence="not stated; downloaded, not redistributed",
    ),
    Dataset(
        name="fb15k-237",
        title="Freebase facts without near-inverse relations",
        n_entities=14_541,
        n_relations=237,
        n_facts=310_116,
        embedded=False,
        splits=True,
        source="Toutanova and Chen (2015), from TimDettmers/ConvE",
        licence="CC BY 2.5 (Freebase)",
    ),
    Dataset(
        name="wn18rr",
        title="WordNet relations between word senses, inverses removed",
        n_entities=40_943,
        n_relations=11,
        n_facts=93_003,
        embedded=False,
        splits=True,
        source="Dettmers et al. (2018), from TimDettmers/ConvE",
        licence="WordNet licence",
    ),
    Dataset(
        name="codex-s",
        title="CoDEx-S, facts of Wikidata",
        n_entities=2_034,
        n_relations=42,
        n_facts=36_543,
        embedded=False,
        splits=True,
        source="Safavi and Koutra (2020), from tsafavi/codex",
        licence="MIT; Wikidata is CC0",
    ),
)


def datasets() -> list[Dataset]:
    """The data sets that `load_dataset` knows."""
    return list(_DATASETS)


def load_dataset(name: str, *, progress: bool = False) -> Facts:
    """All facts of a known data set, downloaded at first use if need be.

    Where a data set has splits, this is their union; `load_splits` gives them one by one. `progress` shows a bar
    while downloading.

    >>> load_dataset("kinships")
    Facts(10790 facts, 104 entities, 26 relations)
    """
    known = _known(name)
    if known.splits:
        return union(load_splits(known.name, progress=progress))
    if known.name == "nations":
        return _nations(_fetched("nations", _REMOTE["nations"][0], progress))
    return {"presidents": _presidents, "kinships": _kinships, "ecoli-ppi": _ecoli}[known.name]()


def load_splits(name: str, *, progress: bool = False) -> tuple[Facts, Facts, Facts]:
    """Training, validation and test facts of a benchmark over one vocabulary."""
    known = _known(name)
    if not known.splits:
        having = ", ".join(each.name for each in _DATASETS if each.splits)
        raise DataError(f"{known.name} has no splits of its own; {having} have, and relatent.split makes some")
    remotes = _REMOTE[known.name]
    contents = [_fetched(known.name, remote, progress) for remote in remotes]
    if len(remotes) == 1:
        contents = _members(contents[0], remotes[0].file)
    train, valid, test = over_one_vocabulary([parse_tsv(*part) for part in zip(contents, _SPLITS, strict=True)])
    return train, valid, test


def _known(name: str) -> Dataset:
    names = Names([each.name for each in _DATASETS], what="data set")
    if ":" in name:
        raise UnknownNameError(
            f"unknown data set {name!r}; load_splits({name.partition(':')[0]!r}) gives the three parts"
        )
    try:
        return _DATASETS[names.id(name.lower())]
    except UnknownNameError as problem:
        hint = "" if "did you mean" in str(problem) else f"; there are {', '.join(names)}"
        raise UnknownNameError(f"{problem}{hint}") from None


# --- embedded tables


def _table(name: str) -> bytes:
    return resources.files(__package__).joinpath("tables", name).read_bytes()


def _presidents() -> Facts:
    facts = parse_tsv(_table("presidents.tsv"), "presidents.tsv")
    listed = _table("presidents-entities.tsv").decode().splitlines()  # name, kind, was president, was vice president
    return facts.over(Names([line.split("\t")[0] for line in listed]), facts.relations)


def _kinships() -> Facts:
    """The table says in row i, column j which term i uses for j: "a" is term0, "." is none."""
    letters = np.array([list(line) for line in _table("kinships.txt").decode().splitlines()])
    i, j = np.nonzero(letters != ".")
    term = letters[i, j].view(np.int32) - ord("a")
    return Facts.from_ids(
        np.stack([i, term, j], axis=1),
        Names([f"person{number}" for number in range(len(letters))]),
        Names([f"term{number}" for number in range(26)], what="relation"),
    )


def _ecoli() -> Facts:
    import gzip

    edges = parse_tsv(gzip.decompress(_table("ecoli-ppi.tsv.gz")), "ecoli-ppi.tsv")
    both = np.concatenate([edges.triples, edges.triples[:, ::-1]])  # each interaction is listed once
    return Facts.from_ids(both, edges.entities, edges.relations)


# --- downloaded files


def _nations(content: bytes) -> Facts:
    from scipy.io import loadmat

    held = loadmat(io.BytesIO(content))
    countries, relations = ([str(cell.item()) for cell in held[key].ravel()] for key in ("countrynames", "relnnames"))
    return Facts.from_tensor(held["R"], entity_names=countries, relation_names=relations, attributes=held["A"])


def _members(content: bytes, archive: str) -> list[bytes]:
    """The three text files of a tar archive; nothing is written to disk."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return [_member(tar, name, archive) for name in _SPLITS]


def _member(tar: tarfile.TarFile, name: str, archive: str) -> bytes:
    try:
        member = tar.getmember(name)
    except KeyError:
        raise DownloadError(f"{archive}: holds no file {name}") from None
    opened = tar.extractfile(member) if member.isfile() and member.size <= _LARGEST_MEMBER else None
    if opened is None:
        raise DownloadError(f"{archive}: {name} is not a plain file of at most {_LARGEST_MEMBER >> 20} MiB")
    return opened.read()


def _home() -> Path:
    import pooch

    return Path(os.environ.get("RELATENT_DATA_HOME") or pooch.os_cache("relatent")).expanduser()


def _fetched(dataset: str, remote: _Remote, progress: bool) -> bytes:
    path = _home() / dataset / remote.file
    if not path.exists():
        _download(path, remote, progress)
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise DownloadError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != remote.sha256:
        raise DownloadError(
            f"{path}: sha256 is {found}, expected {remote.sha256}; delete the file to have it downloaded again"
        )
    return content


def _download(path: Path, remote: _Remote, progress: bool) -> None:
    import pooch

    pooch.get_logger().setLevel("ERROR")
    bar = _Bar(path.name) if progress else None
    try:
        pooch.retrieve(
            remote.url,
            known_hash=f"sha256:{remote.sha256}",
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(progressbar=bar or False, timeout=30),
        )
    except (OSError, ValueError) as problem:  # no connection, no such address, no room, or another sha256
        raise DownloadError(
            f"could not download {remote.url} ({_brief(problem)}); put the file at {path}, "
            f"or into {path.parent.name}/ of a folder that RELATENT_DATA_HOME names"
        ) from None
    finally:
        if bar is not None:
            bar.close()


def _brief(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text[:120]}{'…' if len(text) > 120 else ''}"


class _Bar:
    """A bar on standard error with the few methods that pooch calls."""

    def __init__(self, name: str):
        self.name = name
        self.total = 0
        self._progress: Any = None

    def update(self, n: int) -> None:
        """Advance by n bytes; the bar appears with the first of them."""
        if self._progress is None:
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self.name, total=self.total or None)
            self._progress.start()
        self._progress.update(self._task, advance=n)

    def reset(self) -> None:
        """Back to zero, as pooch does before it fills the bar."""
        if self._progress is not None:
            self._progress.reset(self._task)

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
