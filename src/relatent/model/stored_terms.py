"""The link, the loss and the penalty of a model as JSON values of its file, and back with every check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from ..errors import InputError
from ..tensor_file import RefusedFileError, checked
from .links import LINKS, Link
from .objective_description import ObjectiveTerm


def link_document(link: Link) -> dict[str, Any]:
    """The name and the parameters of a link."""
    if LINKS.get(link.name) is not type(link) or not is_dataclass(link):
        raise InputError(f"a {link.name} link cannot be saved; known links: {', '.join(LINKS)}")
    return {"name": link.name, "parameters": asdict(link)}


def term_document(term: ObjectiveTerm | None) -> dict[str, Any] | None:
    """The name and the parameters of a loss or a penalty."""
    return None if term is None else {"name": term.name, "parameters": dict(term.parameters)}


def read_link(document: Mapping[str, Any]) -> Link:
    """The link."""
    name, parameters = document["link"].get("name"), document["link"].get("parameters")
    if not isinstance(name, str) or name not in LINKS or not isinstance(parameters, dict):
        raise RefusedFileError(f"has a link this relatent does not know: {name!r}; upgrade relatent")
    try:
        return LINKS[name](**parameters)
    except (TypeError, ValueError) as error:
        raise RefusedFileError(f"is damaged: {name} link: {error}; get a fresh copy") from error


def read_terms(document: Mapping[str, Any]) -> tuple[ObjectiveTerm | None, ObjectiveTerm | None]:
    """The loss and the penalty."""
    loss, penalty = (checked(ObjectiveTerm | None, document.get(name), name) for name in ("loss", "penalty"))
    return loss, penalty
