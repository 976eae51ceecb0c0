"""Whether facts are about what a model knows: the one check of data that comes to a model later."""

from __future__ import annotations

import numpy as np

from ..data.facts import Facts
from ..data.names import Names
from ..errors import InputError

MIN_SHARED = 0.01  # of the entities of some facts, that a model must know: fewer are chance, or another kind of names
SHOWN = 3  # names of each side in a message


def check_shares_an_entity(entities: Names, facts: Facts, what: str) -> None:
    """Raise InputError if a model knows none of the entities of facts: nothing that it learned is about them."""
    used = np.unique(facts.triples[:, [0, 2]])
    if not len(used) or (entities.translate(facts.entities)[used] >= 0).any():
        return
    named_here, named_there = list(entities[:SHOWN]), [facts.entities[i] for i in used[:SHOWN].tolist()]
    here, there = (", ".join(map(repr, names)) for names in (named_here, named_there))
    raise InputError(
        f"the model knows no entity of the {what}: it has {here}, they have {there}; write the names as in the data of "
        "the model, or fit a model of their own"
    )


def check_shared(entities: Names, relations: Names, facts: Facts, what: str) -> None:
    """Raise InputError if facts share no relation, or hardly an entity, with a model: they were read in another way."""
    if not len(facts):
        return
    for kind, ours, theirs, used, least in (
        ("relation", relations, facts.relations, facts.triples[:, 1], 0.0),
        ("entity", entities, facts.entities, facts.triples[:, [0, 2]], MIN_SHARED),
    ):
        named = np.unique(used)
        n_shared = int(np.count_nonzero(ours.translate(theirs)[named] >= 0))
        if n_shared <= least * len(named):
            named_here, named_there = list(ours[:SHOWN]), [theirs[i] for i in named[:SHOWN].tolist()]
            here, there = (", ".join(map(repr, names)) for names in (named_here, named_there))
            count = f"no {kind}" if not n_shared else f"{n_shared:,} of {len(named):,} names of entities"
            raise InputError(
                f"the model knows {count} of the {what}: it has {here}, they have {there}; were both read the same "
                "way? The relation of a file of pairs is its name, unless relation= or --relation gives another"
            )
