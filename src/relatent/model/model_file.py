"""Model files: written completely or not at all, and checked in full when read.

docs/format.md describes the layout, the digest and which changes later versions may make.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..arrays import Matrix, Vector
from ..atomic_write import check_writable, replacing
from ..data.facts import Facts
from ..data.names import Names
from ..errors import FitError, InputError, ModelFileError
from ..json_values import parse_json, record
from ..tensor_file import (
    HEADER_LIMIT,
    NO_DIGEST,
    RefusedFileError,
    TensorFile,
    checked,
    digest,
    n_not_finite,
    open_tensors,
    starts_like_tensors,
    write_tensors,
)
from . import (
    provenance,
    stored_attributes,
    stored_calibration,
    stored_facts,
    stored_names,
    stored_patterns,
    stored_summands,
    stored_types,
)
from .calibration import Calibration
from .entity_attributes import EntityAttributes
from .entity_types import EntityTypes
from .links import Link
from .objective_description import CATEGORICAL, ObjectiveTerm
from .patterns import Patterns
from .provenance import Provenance
from .relation_matrices import RelationMatrices
from .stored_terms import link_document, read_link, read_terms, term_document
from .structure import DirectSum, from_document, to_document
from .summand import Summand

_BYTES = ("facts", "unobserved", "pattern_facts", "attribute_values", "calibration_one_answer")
FORMAT = "relatent"
VERSION = 1
MODEL_TENSORS = ("A", "R", "bias", "entity_names", "entity_offsets", "relation_names", "relation_offsets")
LABEL_TENSORS = tuple(f"{what}_labels{part}" for what in ("entity", "relation", "type") for part in ("", "_offsets"))
OPTIONAL_TENSORS = (
    stored_summands.TENSOR,
    *stored_types.TENSORS,
    *LABEL_TENSORS,
    *stored_patterns.TENSORS,
    *stored_attributes.TENSORS,
    *stored_facts.TENSORS,
    *stored_calibration.TENSORS,
)
TENSORS = (*MODEL_TENSORS, *OPTIONAL_TENSORS)  # in the order of the digest
MAX_WITHOUT_BYTES = 1 << 20  # entities that need neither vectors nor names in the file: it cannot claim more than these
MAX_SCORE = 1e15  # of factors, and of scores that they may give: products and squares of these are finite in float32

Arrays = dict[str, NDArray[Any]]


class ModelContents(NamedTuple):
    """What a model file holds."""

    A: Matrix  # (N, r)
    relation_matrices: RelationMatrices
    bias: Vector  # (K,)
    entities: Names
    relations: Names
    link: Link
    about: Provenance
    loss: ObjectiveTerm | None
    penalty: ObjectiveTerm | None
    types: EntityTypes | None
    patterns: Patterns | None
    attributes: EntityAttributes | None
    facts: Facts | stored_facts.StoredFacts | None  # those of a file
    calibration: Calibration | None
    undirected: frozenset[int]
    summands: tuple[Summand, ...]


# --- writing


def write(contents: ModelContents, path: str | Path) -> None:
    """Write a model to one file, completely or not at all."""
    target = Path(os.path.realpath(path))  # a symbolic link stays; the file it points to is replaced
    check_target(target)
    arrays = _arrays_of(contents)
    text = _document_text(contents, arrays)
    try:
        with replacing(target) as part:
            write_tensors(arrays, part, {FORMAT: text})
    except OSError as error:
        raise ModelFileError(f"{target}: the model could not be written: {error}") from error


def check_target(target: Path) -> None:
    """Refuse a path that cannot be written, or that holds something other than a model."""
    check_writable(target, ModelFileError)
    if target.exists() and target.stat().st_size and not looks_like_a_model(target):
        raise ModelFileError(f"{target} exists and is not a model; give another name")


def looks_like_a_model(path: str | Path) -> bool:
    """Whether a file has the suffix or the first bytes of a model; it may be damaged."""
    path = Path(path)
    if path.suffix == f".{FORMAT}" or not path.is_file():
        return path.suffix == f".{FORMAT}"
    with path.open("rb") as file:
        return starts_like_tensors(file.read(9))


def _arrays_of(contents: ModelContents) -> Arrays:
    """The tensors of the file, in digest order."""
    arrays: Arrays = {}
    for name, array in (("A", contents.A), ("R", contents.relation_matrices.parameters), ("bias", contents.bias)):
        if array.dtype.name not in ("float32", "float64"):
            raise InputError(f"{name} must be float32 or float64 to be saved, got {array.dtype}; use astype")
        if not array.size and (name == "bias" or contents.patterns is None):
            raise InputError(f"{name} must not be empty to be saved, got shape {array.shape}")
        if n_wrong := n_not_finite(array):
            raise FitError(
                f"{name} must be finite to be saved, got {n_wrong} values that are not; did the fit diverge?"
            )
        arrays[name] = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    if (largest := _largest_score(arrays["A"], arrays["R"])) > MAX_SCORE:
        raise FitError(f"scores may reach {largest:.1g}, too much for a model; did the fit diverge?")
    n, rank = contents.A.shape
    arrays |= stored_names.to_tensors(contents.entities, "entity", numbers=not rank and n > MAX_WITHOUT_BYTES)
    arrays |= stored_names.to_tensors(contents.relations, "relation")
    arrays |= stored_summands.to_tensors(contents.summands)
    arrays |= {} if contents.types is None else stored_types.to_tensors(contents.types)
    if contents.patterns is not None:
        arrays |= stored_patterns.to_tensors(contents.patterns, with_facts=contents.facts is None)
    arrays |= {} if contents.attributes is None else stored_attributes.to_tensors(contents.attributes)
    arrays |= stored_facts.to_tensors(contents.facts) if isinstance(contents.facts, Facts) else {}
    arrays |= {} if contents.calibration is None else stored_calibration.to_tensors(contents.calibration)
    return {name: arrays[name] for name in TENSORS if name in arrays}


def _largest_score(A: NDArray[Any], R: NDArray[Any]) -> float:
    """A bound on the scores that factors can give, or the largest factor if that is larger."""
    a, r = (max(float(factor.max(initial=0)), -float(factor.min(initial=0))) for factor in (A, R))
    return float(max(a, r, A.shape[1] ** 2 * a * a * r))


def _document_text(contents: ModelContents, arrays: Arrays) -> str:
    """The JSON document of the header with its digest filled in."""
    prefixes = dict(contents.entities.labels.prefixes)
    document = {
        "sha256": NO_DIGEST,
        "format": FORMAT,
        "format_version": VERSION,
        "relatent_version": __version__,
        "tensors": {name: {"dtype": a.dtype.name, "shape": list(a.shape)} for name, a in arrays.items()},
        "link": link_document(contents.link),
        "about": record(contents.about),
        "loss": term_document(contents.loss),
        "penalty": term_document(contents.penalty),
        "structure": to_document(contents.relation_matrices.structure),
    }
    if contents.summands:
        document["summands"] = stored_summands.to_document(contents.summands)
    if contents.attributes is not None:
        document["attributes"] = stored_attributes.to_document(contents.attributes)
    if contents.calibration is not None:
        document["calibration"] = stored_calibration.to_document(contents.calibration)
    if contents.undirected:
        document["undirected"] = sorted(contents.undirected)
    if prefixes:
        document["prefixes"] = prefixes
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"about, loss and penalty must hold JSON values only to be saved: {error}") from error
    if 2 * len(text) > HEADER_LIMIT - 4096:  # a quote takes two bytes in the header
        raise InputError(f"about must stay below 4 MB as JSON, got {len(text)} bytes; shorten its trace")
    return text.replace(NO_DIGEST, digest(text, arrays.values()), 1)


# --- reading


def read(path: str | Path, *, verify: bool = True) -> ModelContents:
    """Read a model file; `verify` also compares its checksum."""
    with _opened(path) as file, ThreadPoolExecutor(1) as executor:
        arrays, rank = file.arrays(), file.shape("A")[1]
        prefixes = checked(Mapping[str, str], file.document.get("prefixes", {}), "prefixes")
        hashed = executor.submit(digest, file.unsigned, arrays.values()) if verify else None  # releases the GIL
        entities = stored_names.from_tensors(arrays, "entity", file.shape("A")[0], prefixes)
        relations = stored_names.from_tensors(arrays, "relation", file.shape("bias")[0], prefixes)
        types = stored_types.from_tensors(arrays, prefixes)
        undirected, sets = _undirected(file), None if types is None else types.sets
        facts = stored_facts.from_tensors(arrays, entities, relations, sets, undirected)
        contents = ModelContents(
            arrays["A"],
            RelationMatrices(_structure(file), arrays["R"], (file.shape("bias")[0], rank, rank)),
            arrays["bias"],
            entities,
            relations,
            read_link(file.document),
            provenance.read(file.document["about"], file.shape("bias")[0]),
            *read_terms(file.document),
            types,
            stored_patterns.from_tensors(arrays, entities, relations, facts, undirected),
            stored_attributes.from_tensors(arrays, file.document),
            facts,
            stored_calibration.from_tensors(arrays, file.document, file.shape("bias")[0]),
            undirected,
            stored_summands.from_tensors(arrays, file.document),
        )
        for name in ("A", "R", "bias"):
            if n_wrong := n_not_finite(arrays[name]):
                raise RefusedFileError(f"is damaged: {n_wrong} values of {name} are not finite; write it again")
        if (largest := _largest_score(arrays["A"], arrays["R"])) > MAX_SCORE:
            raise RefusedFileError(f"has factors so large that scores may reach {largest:.1g}; fit it again")
        if hashed is not None:
            file.compare(hashed.result())
    return contents


def inspect(path: str | Path, *, verify: bool = False) -> dict[str, Any]:
    """What a model file holds, from its header; `verify` compares its checksum."""
    with _opened(path) as file:
        read_link(file.document)
        loss, penalty = read_terms(file.document)
        if verify:
            file.compare(digest(file.unsigned, file.arrays().values()))
        (n, rank), columns = file.shape("A"), stored_attributes.columns_of(file.document)
        return {
            "format": FORMAT,
            "format_version": file.document["format_version"],
            "relatent_version": file.document.get("relatent_version"),
            "n_entities": n,
            "n_relations": file.shape("bias")[0],
            "rank": rank,
            "structure": _structure(file).name,
            "dtype": file.document["tensors"]["A"]["dtype"],
            "link": file.document["link"],
            "loss": term_document(loss),
            "penalty": term_document(penalty),
            **({"summands": file.document["summands"]} if stored_summands.TENSOR in file.document["tensors"] else {}),
            "exclusive": loss is not None and loss.name == CATEGORICAL,
            **({"attributes": {c.name: c.kind for c in columns}} if columns else {}),
            "about": record(provenance.read(file.document["about"], file.shape("bias")[0])),
            **({"undirected": sorted(_undirected(file))} if _undirected(file) else {}),
            "holds_facts": "facts" in file.document["tensors"],
            "calibration": file.document.get("calibration"),
            "bytes": os.path.getsize(path),
            "sha256": file.document["sha256"],
            "verified": verify,
        }


@dataclass(frozen=True)
class _ModelFile:
    content: TensorFile
    text: str
    document: dict[str, Any]

    @property
    def unsigned(self) -> str:
        """The document as it was when the digest was computed."""
        return self.text.replace(self.document["sha256"], NO_DIGEST, 1)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.content.tensors[name].shape

    def arrays(self) -> Arrays:
        return {name: self.content.read(name) for name in TENSORS if name in self.document["tensors"]}

    def compare(self, found: str) -> None:
        if found != self.document["sha256"]:
            raise RefusedFileError("was changed after it was written: its checksum does not match; get a fresh copy")


@contextmanager
def _opened(path: str | Path) -> Iterator[_ModelFile]:
    """A file with a checked header; every fault of the file becomes one ModelFileError."""
    try:
        with open_tensors(path) as content:
            text = content.metadata.get(FORMAT, "")
            file = _ModelFile(content, text, _document(text))
            _check_tensors(file)
            yield file
    except RefusedFileError as refused:
        raise ModelFileError(f"{path} {refused}") from None
    except (InputError, OSError, ValueError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise ModelFileError(f"{path} cannot be read as a model: {error}") from None


def _document(text: str) -> dict[str, Any]:
    """The JSON document of the header, with its format and version checked."""
    try:
        document = parse_json(text)
    except (ValueError, RecursionError) as error:
        document = None
        if text:
            raise RefusedFileError("is damaged: its header is not JSON; get a fresh copy") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RefusedFileError("is not a relatent model; give a file written by Factors.save or relatent fit")
    version = document.get("format_version")
    if version != VERSION:
        remedy = "upgrade relatent, or fit the model again"
        raise RefusedFileError(f"has format version {version!r}, this relatent reads {VERSION}; {remedy}")
    kinds = {"sha256": str, "tensors": dict, "link": dict, "about": dict}
    for name, kind in kinds.items():
        if not isinstance(document.get(name), kind):
            raise RefusedFileError(f"is damaged: its header has no {name}; get a fresh copy")
    if len(document["sha256"]) != len(NO_DIGEST):
        raise RefusedFileError("is damaged: its checksum is not a SHA-256; get a fresh copy")
    return document


def _check_tensors(file: _ModelFile) -> None:
    """Check names, types and shapes of the tensors before any of them is read."""
    listed = file.document["tensors"]
    if set(file.content.tensors) != set(listed) or not {"A", "R", "bias"} <= set(listed) <= set(TENSORS):
        raise RefusedFileError("is damaged: it does not hold the tensors of a model; get a fresh copy")
    shapes = {name: file.shape(name) for name in listed}
    if len(shapes["A"]) != 2 or len(shapes["bias"]) != 1:
        raise RefusedFileError(f"is damaged: A has shape {shapes['A']} and bias {shapes['bias']}; get a fresh copy")
    (n, rank), k = shapes["A"], shapes["bias"][0]
    if not (n and k and (rank or stored_patterns.TENSORS[0] in listed)):
        raise RefusedFileError(f"is damaged: {n} entities, {k} relations, rank {rank}; get a fresh copy")
    if not rank and n > MAX_WITHOUT_BYTES and "entity_offsets" not in listed:
        raise RefusedFileError(f"is damaged: {n} entities without vectors and names; get a fresh copy")
    structure = _structure(file)
    parameters = structure.shape(k, rank)
    fixed = {"R": parameters, "bias": (k,), "entity_offsets": (n + 1,), "relation_offsets": (k + 1,)}
    fixed |= {"entity_types_offsets": (n + 1,), "role_types_offsets": (2 * k + 1,)}
    fixed |= {"entity_labels_offsets": (n + 1,), "relation_labels_offsets": (k + 1,)}
    fixed |= stored_attributes.shapes(file.document, rank)
    fixed |= {stored_summands.TENSOR: (len(structure.parts) if isinstance(structure, DirectSum) else 0, k)}
    for name, shape in shapes.items():
        dtype = file.content.tensors[name].dtype
        fits = shape == fixed.get(name, shape[:1] if not _is_matrix(name) else shape) and dtype in _allowed(name)
        if not fits or listed[name] != {"dtype": dtype, "shape": list(shape)}:
            raise RefusedFileError(f"is damaged: {name} is {dtype} of shape {shape}; get a fresh copy")


def _is_matrix(name: str) -> bool:
    """Whether a tensor of no fixed shape has two dimensions."""
    return name in ("A", stored_summands.TENSOR) or (
        name.startswith("calibration_") and name != "calibration_base_rates"
    )


def _structure(file: _ModelFile) -> Any:
    """The structure of the relation matrices, for the size of this model."""
    given = file.document.get("structure")
    k, r = file.shape("bias")[0], file.shape("A")[1]
    try:
        return from_document(given, k, r)
    except (InputError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise RefusedFileError(f"has a structure this relatent does not know: {given!r}; upgrade relatent") from error


def _allowed(name: str) -> tuple[str, ...]:
    if name.endswith(("_names", "_labels")) or name in _BYTES:
        return ("uint8",)
    if name.endswith(("_types", "_codes", "_pairs")):
        return ("int32",)
    return ("int64",) if name.endswith("_offsets") else ("float32", "float64")


def _undirected(file: _ModelFile) -> frozenset[int]:
    """The ids of the undirected relations."""
    found: tuple[int, ...] = checked(tuple[int, ...], file.document.get("undirected", []), "undirected")
    if not all(0 <= k < file.shape("bias")[0] for k in found):
        raise RefusedFileError("is damaged: its undirected relations are no ids of relations; get a fresh copy")
    return frozenset(found)
