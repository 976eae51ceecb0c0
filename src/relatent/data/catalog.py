"""The catalog of data sets: some are part of the package, the others are downloaded once.

Downloads are stored as `<home>/<data set>/<original file name>`, where home is the environment variable
RELATENT_DATA_HOME or else the platform's user cache. The sha256 of each file is checked whenever it is read.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import DataError, DownloadError, UnknownNameError, one_line
from ..progress import Progress, reporting
from .facts import Facts
from .facts_union import over_one_vocabulary, union
from .names import Names
from .read.file_formats import parse_tsv

_SPLITS = ("train.txt", "valid.txt", "test.txt")
_MAX_MEMBER_BYTES = 256 << 20  # size of an unpacked file of an archive, which is kept in memory


@dataclass(frozen=True)
class Dataset:
    """An entry of the catalog."""

    name: str
    title: str
    n_entities: int
    n_relations: int
    n_facts: int
    embedded: bool  # part of the package
    splits: bool  # has its own training, validation and test facts
    source: str
    licence: str
    negatives: bool = False  # has validation and test statements verified to be false


class _Remote(NamedTuple):
    file: str
    sha256: str
    folder_url: str

    @property
    def url(self) -> str:
        return f"{self.folder_url}/{self.file}"


_CONVE = "https://github.com/TimDettmers/ConvE/raw/f3c0eb286025410fa5b4c04696c918264163d0ca"
_CODEX = "https://raw.githubusercontent.com/tsafavi/codex/3132e426c2a6b643b70bad679905a3a6270be440/data/triples/codex-s"
_ALMC = "https://raw.githubusercontent.com/dongwookim-ml/almc/4d9e15a16cbf28897ae3e5c048a93dca46030dd8/data/nation"

_REMOTE: dict[str, tuple[_Remote, ...]] = {
    "nations": (_Remote("dnations.mat", "c8317e39bdf831957a3b3748c8b9135ea44f4d5afad2f735e0d61bef9fd7f5ab", _ALMC),),
    "fb15k-237": (
        _Remote("FB15k-237.tar.gz", "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8", _CONVE),
    ),
    "wn18rr": (_Remote("WN18RR.tar.gz", "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060", _CONVE),),
    "codex-s": (
        _Remote("train.txt", "64f93b7f314f3936a6f65739721429db3f6a7c8f5a1e1104ec3bb544f7434f59", _CODEX),
        _Remote("valid.txt", "3831c0e57daef03c3a18cdd1a72e370b496f696c5218883d35c7d2ab8a6a772c", _CODEX),
        _Remote("test.txt", "27127fcb34688c4778e88a39ef3c9b540807da846021e9d9685660ac1838aca1", _CODEX),
    ),
}

_NEGATIVES: dict[str, tuple[_Remote, _Remote]] = {  # of validation and of test
    "codex-s": (
        _Remote("valid_negatives.txt", "c1d84860d6ee786419f1f118d0e9479c6614283b3e267afc158734389036901f", _CODEX),
        _Remote("test_negatives.txt", "d3fb32c41f3be26d09484ace571965806f1ade0ca712551b0de684c283cdbb22", _CODEX),
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
        negatives=True,
    ),
)


def datasets() -> list[Dataset]:
    """The data sets that `load_dataset` can load."""
    return list(_DATASETS)


def load_dataset(name: str, *, progress: bool | Progress | None = None) -> Facts:
    """All facts of a data set of the catalog, downloaded on first use if necessary.

    If the data set has splits, this is their union; `load_splits` returns them separately. `progress=True` shows a bar
    during a download; a function is called with (bytes done, total bytes, file name).

    >>> load_dataset("kinships")
    Facts(10790 facts, 104 entities, 26 relations)
    """
    dataset = _find(name)
    if dataset.splits:
        train, valid, test = load_splits(dataset.name, progress=progress)
        return union([train, valid, test], entities=train.entities, relations=train.relations)
    if dataset.name == "nations":
        return _nations(_fetch("nations", _REMOTE["nations"][0], progress))
    return {"presidents": _presidents, "kinships": _kinships, "ecoli-ppi": _ecoli}[dataset.name]()


def load_splits(name: str, *, progress: bool | Progress | None = None) -> tuple[Facts, Facts, Facts]:
    """Training, validation and test facts of a benchmark over one vocabulary; `progress` as in `load_dataset`."""
    dataset = _find(name)
    if not dataset.splits:
        names = ", ".join(other.name for other in _DATASETS if other.splits)
        raise DataError(f"{dataset.name} has no splits of its own; {names} do, or make a split with relatent.split")
    remotes = _REMOTE[dataset.name]
    contents = [_fetch(dataset.name, remote, progress) for remote in remotes]
    if len(remotes) == 1:
        contents = _members(contents[0], remotes[0].file)
    parts = [parse_tsv(content, file) for content, file in zip(contents, _SPLITS, strict=True)]
    train, valid, test = over_one_vocabulary(parts)
    return train, valid, test


def load_negatives(name: str, *, progress: bool | Progress | None = None) -> tuple[Facts, Facts]:
    """Plausible validation and test statements verified to be false, by the ids of `load_splits`, for `truth_test`."""
    dataset = _find(name)
    if not dataset.negatives:
        names = ", ".join(other.name for other in _DATASETS if other.negatives)
        raise DataError(f"{dataset.name} has no negatives; {names} has, or read a file of false statements")
    remotes, like = _NEGATIVES[dataset.name], load_splits(name, progress=progress)[0]
    parts = [parse_tsv(_fetch(dataset.name, remote, progress), remote.file) for remote in remotes]
    valid, test = (part.over(like.entities, like.relations) for part in parts)
    return valid, test


def _find(name: str) -> Dataset:
    names = Names([dataset.name for dataset in _DATASETS], what="data set")
    if ":" in name:
        raise UnknownNameError(
            f"unknown data set {name!r}; load_splits({name.partition(':')[0]!r}) returns the three splits"
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
    """Row i, column j of the table is the term that i uses for j: "a" is term0, "." is none."""
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

    arrays = loadmat(io.BytesIO(content))
    countries, relations = ([str(cell.item()) for cell in arrays[key].ravel()] for key in ("countrynames", "relnnames"))
    return Facts.from_tensor(arrays["R"], entity_names=countries, relation_names=relations, attributes=arrays["A"])


def _members(content: bytes, archive: str) -> list[bytes]:
    """The three text files of a tar archive, unpacked in memory."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return [_member(tar, name, archive) for name in _SPLITS]


def _member(tar: tarfile.TarFile, name: str, archive: str) -> bytes:
    try:
        member = tar.getmember(name)
    except KeyError:
        raise DownloadError(f"{archive}: contains no file {name}") from None
    opened = tar.extractfile(member) if member.isfile() and member.size <= _MAX_MEMBER_BYTES else None
    if opened is None:
        raise DownloadError(f"{archive}: {name} is not a plain file of at most {_MAX_MEMBER_BYTES >> 20} MiB")
    return opened.read()


def _home() -> Path:
    import pooch

    return Path(os.environ.get("RELATENT_DATA_HOME") or pooch.os_cache("relatent")).expanduser()


def _fetch(dataset: str, remote: _Remote, progress: bool | Progress | None) -> bytes:
    path = _home() / dataset / remote.file
    if not path.exists():
        with reporting(progress, f"downloading {remote.file}", in_bytes=True) as report:
            _download(path, remote, report)
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise DownloadError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != remote.sha256:
        raise DownloadError(
            f"{path}: sha256 is {found}, expected {remote.sha256}; delete the file to download it again"
        )
    return content


def _download(path: Path, remote: _Remote, report: Progress) -> None:
    import pooch

    pooch.get_logger().setLevel("ERROR")
    try:
        pooch.retrieve(
            remote.url,
            known_hash=f"sha256:{remote.sha256}",
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(progressbar=_DownloadProgress(remote.file, report), timeout=30),
        )
    except (OSError, ValueError) as problem:  # no connection, unknown address, full disk, or another sha256
        reason = f"{type(problem).__name__}: {one_line(problem, 120)}"
        raise DownloadError(
            f"could not download {remote.url} ({reason}); put the file at {path}, or into the folder "
            f"{path.parent.name}/ of the folder that RELATENT_DATA_HOME names"
        ) from None


class _DownloadProgress:
    """The methods that pooch calls on a progress bar, passed on to a callback."""

    def __init__(self, name: str, report: Progress):
        self.name, self.report = name, report
        self.total = 0  # set by pooch
        self._done = 0

    def update(self, n_bytes: int) -> None:
        """Count more bytes; pooch counts whole chunks, so the last one may be too long."""
        self._done = min(self._done + n_bytes, self.total or self._done + n_bytes)
        self.report(self._done, self.total, self.name)

    def reset(self) -> None:
        """Count from zero, as pooch does before it reports the total."""
        self._done = 0

    def close(self) -> None:
        """Do nothing: the caller closes the bar."""
