"""The catalog of data sets (`tables/catalog.toml`): some are part of the package, the others are downloaded once.

Downloads are stored as `<home>/<data set>/<original file name>`, where home is the environment variable
RELATENT_DATA_HOME or else the platform's user cache. The sha256 of each file is checked whenever it is read.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import DataError, DownloadError, UnknownNameError, one_line
from ..progress import Progress, reporting
from ..result_tables import Result, ResultList
from .facts import Facts
from .facts_union import over_one_vocabulary, union
from .names import Names
from .read.files import File
from .read.reading import Reading
from .read.sources import read_file

_SPLITS = ("train.txt", "valid.txt", "test.txt")
_MAX_MEMBER_BYTES = 256 << 20  # size of an unpacked file of an archive, which is kept in memory


@dataclass(frozen=True)
class Dataset(Result):
    """An entry of the catalog.

    >>> import relatent
    >>> relatent.datasets()[1].name, relatent.datasets()[1].n_facts
    ('kinships', 10790)
    """

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


class _Entry(NamedTuple):
    dataset: Dataset
    files: list[_Remote]
    negatives: list[_Remote]  # of validation and of test


@cache
def _catalog() -> dict[str, _Entry]:
    """The entries of tables/catalog.toml by name."""
    entries = {}
    for name, entry in tomllib.loads(_table("catalog.toml").decode()).items():
        url = entry.pop("url", "")
        files, negatives = (
            [_Remote(file, sha256, url) for file, sha256 in entry.pop(key, {}).items()]
            for key in ("files", "negatives")
        )
        dataset = Dataset(name, **entry, embedded=not files, negatives=bool(negatives))
        entries[name] = _Entry(dataset, files, negatives)
    return entries


def datasets() -> ResultList[Dataset]:
    """The data sets that `load_dataset` can load.

    >>> [entry.name for entry in datasets() if entry.embedded]
    ['presidents', 'kinships', 'ecoli-ppi', 'people']
    """
    return ResultList(entry.dataset for entry in _catalog().values())


def load_dataset(name: str, *, progress: bool | Progress | None = None) -> Facts:
    """All facts of a data set of the catalog, downloaded on first use if necessary.

    If the data set has splits, this is their union; `load_splits` returns them separately. `progress=True` shows a bar
    during a download; a function is called with (bytes done, total bytes, file name).

    >>> load_dataset("kinships")
    Facts(10790 facts, 104 entities, 26 relations)
    """
    dataset, files, _ = _find(name)
    if dataset.splits:
        train, valid, test = load_splits(dataset.name, progress=progress)
        return union([train, valid, test], entities=train.entities, relations=train.relations)
    if dataset.name == "nations":
        return _nations(_fetch("nations", files[0], progress))
    embedded = {"presidents": _presidents, "kinships": _kinships, "ecoli-ppi": _ecoli, "people": _people}
    return embedded[dataset.name]()


def load_splits(name: str, *, progress: bool | Progress | None = None) -> tuple[Facts, Facts, Facts]:
    """Training, validation and test facts of a benchmark over one vocabulary; `progress` as in `load_dataset`.

    >>> train, valid, test = load_splits("codex-s")  # downloads 1 MB on first use  # doctest: +SKIP
    """
    dataset, remotes, _ = _find(name)
    if not dataset.splits:
        names = ", ".join(other.name for other in datasets() if other.splits)
        raise DataError(f"{dataset.name} has no splits of its own; {names} do, or make a split with relatent.split")
    contents = [_fetch(dataset.name, remote, progress) for remote in remotes]
    if len(remotes) == 1:
        contents = _members(contents[0], remotes[0].file)
    parts = [parse_tsv(content, file) for content, file in zip(contents, _SPLITS, strict=True)]
    train, valid, test = over_one_vocabulary(parts)
    return train, valid, test


def load_negatives(name: str, *, progress: bool | Progress | None = None) -> tuple[Facts, Facts]:
    """Plausible validation and test statements verified to be false, by the ids of `load_splits`, for `truth_test`.

    >>> valid, test = load_negatives("codex-s")  # downloaded on first use  # doctest: +SKIP
    """
    dataset, _, remotes = _find(name)
    if not dataset.negatives:
        names = ", ".join(other.name for other in datasets() if other.negatives)
        raise DataError(f"{dataset.name} has no negatives; {names} has, or read a file of false statements")
    like = load_splits(name, progress=progress)[0]
    parts = [parse_tsv(_fetch(dataset.name, remote, progress), remote.file) for remote in remotes]
    valid, test = (part.over(like.entities, like.relations) for part in parts)
    return valid, test


def _find(name: str) -> _Entry:
    names = Names(_catalog(), what="data set")
    if ":" in name:
        raise UnknownNameError(
            f"unknown data set {name!r}; load_splits({name.partition(':')[0]!r}) returns the three splits"
        )
    try:
        return _catalog()[names[names.id(name.lower())]]
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


def _people() -> Facts:
    return parse_tsv(_table("people.tsv"), "people.tsv")


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


def parse_tsv(content: bytes, name: str) -> Facts:
    """Facts from the bytes of a tab-separated file without a header; errors call the file `name`."""
    return read_file(File(Path(name), "tsv", content=content), Reading(header=False, sep="\t", strip=False))
