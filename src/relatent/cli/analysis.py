"""Commands that ask a model more than which facts are likely: who is alike or twice there, groups, why."""

from __future__ import annotations

from pathlib import Path

import click

from .output import answer, json_option, seed_option

model_argument = click.argument("model", type=click.Path(path_type=Path))


@click.command()
@model_argument
@click.argument("entity")
@click.option("--top", "k", default=10, show_default=True, type=click.IntRange(min=1), help="How many.")
@json_option
def similar(model: Path, entity: str, k: int, as_json: bool) -> None:
    """Entities of which the model says nearly the same as of one.

    Example: relatent similar kinships.relatent person0
    """
    from ..analysis.similarity import similar as find
    from ..model.factors import load
    from . import tables as show

    found = find(load(model), entity, k)
    answer(
        as_json,
        {"entity": entity, "similar": [entity.to_dict() for entity in found]},
        lambda: [
            show.table(f"like {entity}", ("entity", "similarity"), [(n, f"{s:.3f}") for n, s in found], numbers=(1,))
        ],
    )


@click.command()
@model_argument
@click.option(
    "--method",
    type=click.Choice(["k-means", "hierarchical", "hdbscan"]),
    default="k-means",
    show_default=True,
    help="How entities are grouped.",
)
@click.option("--groups", "n_groups", type=click.IntRange(min=1), help="How many groups.  [default: chosen]")
@seed_option
@json_option
def groups(model: Path, method: str, n_groups: int | None, seed: int, as_json: bool) -> None:
    """Groups of entities that belong together, and what is typical of each.

    Example: relatent groups kinships.relatent --groups 4
    """
    from ..analysis.groups import groups as find
    from ..model.factors import load
    from . import tables as show

    found = find(load(model), method, n_groups, random_state=seed)
    answer(as_json, {"method": method, "groups": [group.to_dict() for group in found]}, lambda: [show.groups(found)])


@click.command()
@model_argument
@click.option("--subject", "-s", required=True)
@click.option("--relation", "-r", required=True)
@click.option("--object", "-t", "object_", required=True)
@click.option("--known", required=True, help="The facts the model was learned from.")
@click.option("--top", "count", default=5, show_default=True, type=click.IntRange(min=1), help="How many reasons.")
@json_option
def explain(model: Path, subject: str, relation: str, object_: str, known: str, count: int, as_json: bool) -> None:
    """Why the model finds a fact likely or not: the known facts that carry it, and its latent components.

    Example: relatent explain presidents.relatent -s "Al Gore" -r party -t Democratic --known presidents
    """
    from ..analysis.explain import explain as find
    from ..model.factors import load
    from . import tables as show
    from .sources import open_facts

    found = find(load(model), subject, relation, object_, open_facts(known, split="train"), k=count)
    answer(as_json, found.to_dict(), lambda: show.explanation(found))


@click.command()
@model_argument
@click.option("--known", required=True, help="The facts the model was learned from.")
@click.option("--entity", help="Whose duplicates.  [default: of all entities]")
@click.option("--top", default=20, show_default=True, type=click.IntRange(min=1), help="How many pairs.")
@click.option(
    "--least",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="The probability from which on entities are merged.",
)
@click.option(
    "--expected",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="The share of entities thought to have a duplicate.",
)
@click.option(
    "--shared",
    type=click.FloatRange(0, 1),
    help="How much of its facts an entity is thought to share with its duplicate; 0: facts were divided.  "
    "[default: not known]",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write what to merge to a TSV file.")
@seed_option
@json_option
def duplicates(
    model: Path,
    known: str,
    entity: str | None,
    top: int,
    least: float,
    expected: float,
    shared: float | None,
    output: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Pairs of entities that may be the same, with probabilities, and a proposal which to merge.

    Example: relatent duplicates people.relatent --known people.tsv --least 0.8 -o merges.tsv
    """
    from ..analysis.duplicates import duplicates as find
    from ..analysis.duplicates import write_merges
    from ..atomic_write import check_writable
    from ..model.factors import load
    from ..progress import bar
    from . import tables as show
    from .sources import open_facts

    if output is not None:
        check_writable(output)
    facts = open_facts(known, split="train")
    factors = load(model)
    with bar("duplicates", note="reading") as progress:
        found = find(
            factors,
            facts,
            entity,
            k=top,
            threshold=least,
            prior=expected,
            shared=shared,
            random_state=seed,
            progress=progress,
        )
    if output is not None:
        write_merges(found.merges, output)
    document = {
        **found.to_dict(),
        "least": least,
        "expected": expected,
        "shared": shared,
    }
    answer(as_json, document, lambda: show.duplicates(found))
