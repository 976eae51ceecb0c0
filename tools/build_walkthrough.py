"""Write docs/walkthrough.ipynb: run its cells in order and store their outputs. Needs relatent[plot]."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "docs" / "walkthrough.ipynb"

CELLS = [
    (
        "markdown",
        "# From a table to answers\n\n"
        "A first tour of relatent: read facts, choose a model automatically, predict, measure how good the predictions "
        "are, and explain them. It takes less than a minute. Only the last figure needs an extra: "
        "`pip install 'relatent[plot]'`.\n\n"
        "`python tools/build_walkthrough.py` generates this notebook and its outputs.",
    ),
    (
        "markdown",
        "## Facts\n\nA fact is a row *(subject, relation, object)*. In this example people live in five towns with "
        "one street each. They speak the language of the town, went to its school, work for its firm, and are friends "
        "with everybody who lives up to four doors away.",
    ),
    (
        "code",
        "from pathlib import Path\n\n"
        "towns = {  # language, firm, and the people along the street\n"
        '    "Oslo": ("Norwegian", "Fjord Bank", "Ada Bo Dag Eli Finn Gro Ida Jon Kari Liv Nils Odd Per Siv Tor"),\n'
        '    "Rome": (\n'
        '        "Italian", "Roma Film",\n'
        '        "Aldo Bice Carla Dino Elsa Fabio Gino Lia Mara Nino Pia Rita Rosa Sandro Vito",\n'
        "    ),\n"
        '    "Lyon": (\n'
        '        "French", "Lyon Silk",\n'
        '        "Aline Benoit Chloe Denis Emile Fleur Gilles Helene Jules Louise Marcel Odile Pierre Remi Yvette",\n'
        "    ),\n"
        '    "Porto": (\n'
        '        "Portuguese", "Douro Wines",\n'
        '        "Afonso Beatriz Catia Duarte Filipa Gil Ines Joana Luis Matilde Nuno Olga Rui Sofia Tiago",\n'
        "    ),\n"
        '    "Ghent": (\n'
        '        "Dutch", "Ghent Press",\n'
        '        "Anneke Bram Cas Daan Eva Floor Griet Hanne Jan Koen Lotte Mieke Pieter Ruben Stijn",\n'
        "    ),\n"
        "}\n"
        'rows = ["subject,relation,object"]\n'
        "for town, (language, firm, street) in towns.items():\n"
        "    people = street.split()\n"
        "    for door, name in enumerate(people):\n"
        '        rows += [f"{name},lives in,{town}", f"{name},speaks,{language}"]\n'
        '        rows += [f"{name},went to,{town} School", f"{name},works at,{firm}"]\n'
        "        near = people[max(door - 4, 0) : door + 5]\n"
        '        rows += [f"{name},friend of,{other}" for other in near if other != name]\n'
        'Path("people.csv").write_text("\\n".join(rows) + "\\n")\n'
        'print("\\n".join(rows[:7]))',
    ),
    ("code", 'import relatent\n\neverything = relatent.read("people.csv")\neverything'),
    (
        "markdown",
        "## Unobserved cells\n\nA fact that is not in the table counts as false unless it is marked as *unobserved*. "
        "Eight facts are held out here. All other answers to the same eight questions are marked as unobserved too, so "
        "that the model cannot see which one is missing; so is whether people are friends with themselves.",
    ),
    (
        "code",
        "import numpy as np\n\n"
        'questions = [("Bo", "speaks"), ("Dino", "speaks"), ("Rosa", "lives in"), ("Remi", "lives in"),\n'
        '             ("Jules", "works at"), ("Cas", "works at"), ("Ines", "went to"), ("Lotte", "went to")]\n'
        "right = {(s, r): o for s, r, o in everything.named() if (s, r) in questions}\n\n"
        "who, what = everything.entities, everything.relations\n"
        "unobserved = [(who.id(s), what.id(r), other) for s, r in questions for other in range(len(who))]\n"
        'unobserved += [(person, what.id("friend of"), person) for person in range(len(who))]\n'
        "facts = everything.hold_out(np.array(unobserved), masked=True)\n"
        "facts",
    ),
    (
        "markdown",
        "## Choose a model and predict\n\nA model has a vector per entity and a matrix per relation. `tune` compares "
        "models, ranks and penalties on held-out cells, and fits the best to all facts. By default it takes two "
        "minutes; `trials=12` starts with twelve settings instead, which makes this notebook reproducible.",
    ),
    (
        "code",
        'report = relatent.tune(facts, trials=12, models=["logit", "als"])\nprint(report.sentence)',
    ),
    ("markdown", "The two best answers to each of the eight questions, among all entities, with their probabilities:"),
    (
        "code",
        "model = report.factors_\n"
        "for subject, relation in questions:\n"
        "    best = model.top(subject=subject, relation=relation, k=2)\n"
        "    (first, second), (p, q) = best.names, best.probabilities\n"
        '    verdict = "right" if first == right[subject, relation] else "wrong"\n'
        '    print(f"{subject:5} {relation:8} {first} {p:.2f} ({verdict}), then {second} {q:.2f}")',
    ),
    (
        "markdown",
        "## How good is it?\n\nEight answers prove little, and the score of the best of many settings is too "
        "optimistic. So the chosen settings are cross-validated: every observed cell is held out once, a fifth at a "
        "time. Average precision is 1 if all true cells rank above all false ones. Below it are baselines without a "
        "model.",
    ),
    (
        "code",
        "measured = relatent.cross_validate(report.unfitted_estimator, facts, folds=5, random_state=1)\n"
        'print(f"{measured.average_precision:.2f}  model")\n'
        "for name, figures in measured.baselines.items():\n"
        "    print(f\"{figures['average_precision']:.2f}  {name}\")\n"
        'print("\\nby relation:")\n'
        "for name, figures in measured.per_relation.items():\n"
        '    print(f"{figures.average_precision:.2f}  {name}")',
    ),
    (
        "markdown",
        "Friendships are the hardest to predict: a person five doors away looks much like a person four doors away.\n\n"
        "## Why?\n\n`explain` lists the known facts that raise the score, in log-odds, the most influential first.",
    ),
    (
        "code",
        'why = relatent.explain(model, "Bo", "speaks", "Norwegian")\nprint(why.sentence)\n'
        "for reason in why.reasons:\n"
        '    print(f"{reason.influence:+.2f}  {reason.subject} {reason.relation} {reason.object}")',
    ),
    (
        "markdown",
        "## New entities\n\nEve is in no fact above. She lives in Rome and is a friend of Dino, which is enough to "
        "compute her vector without fitting the model again. `others=0` treats her other cells as unobserved, not as "
        "false. Her other friends should be Dino's neighbours Aldo, Bice, Carla, Elsa, Fabio, Gino and Lia.",
    ),
    (
        "code",
        'eve = relatent.Facts.from_arrays(["Eve", "Eve"], ["lives in", "friend of"], ["Rome", "Dino"])\n'
        "larger = model.fold_in(eve, others=0)\n"
        'for relation, k in [("speaks", 2), ("works at", 2), ("went to", 2), ("friend of", 5)]:\n'
        '    best = larger.top(subject="Eve", relation=relation, k=k)\n'
        "    shown = zip(best.names, best.probabilities)\n"
        '    print(f"{relation:9}", ", ".join(f"{name} {p:.2f}" for name, p in shown))',
    ),
    (
        "markdown",
        "## Groups\n\n`groups` finds the kinds of entities by the relations they take part in. Nothing above says who "
        "is a person and what is a town.",
    ),
    (
        "code",
        "found = relatent.groups(model)\n"
        "for group in found:\n"
        '    print(len(group.names), ", ".join(sorted(group.names)))\n'
        "    for fact in group.typical[:1]:\n"
        '        print(f"    typical: {fact.relation} {fact.neighbour}, {fact.probability:.2f} here, "\n'
        '              f"{fact.elsewhere:.2f} elsewhere")',
    ),
    (
        "markdown",
        "Five groups have the people, each those of one town, and the last one everything else.\n\n"
        "## A map and a model file\n\nIn the map similar entities lie close together, coloured by group. Neighbours of "
        "a street are neighbours in the map; towns, languages, schools and firms lie apart from the people.",
    ),
    (
        "code",
        "from relatent.plots.figures import entity_map\n\n"
        'model.save("people.relatent")\n'
        'entity_map(model, "people").savefig("map.png", dpi=90)\n'
        'relatent.load("people.relatent")',
    ),
    (
        "markdown",
        "The same on the command line: `relatent tune people.csv -o people.relatent --model logit --model als`, "
        "`relatent predict people.relatent --subject Bo --relation 'friend of'`, "
        "`relatent serve people.relatent --open`. "
        "Continue with [Which model, when](guide.md).",
    ),
]


def run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell as a notebook does; returns what it prints and the value of its last line."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue(), value


def notebook() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for number, (kind, source) in enumerate(CELLS):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell{number}", "metadata": {}}
        cell["source"] = source.splitlines(keepends=True)
        if kind == "code":
            count += 1
            cell |= {"execution_count": count, "outputs": _outputs(*run(source, names), count)}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _outputs(printed: str, value: Any, count: int) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    if Path("map.png").exists():
        image = {"image/png": base64.b64encode(Path("map.png").read_bytes()).decode()}
        outputs.append({"data": image, "metadata": {}, "output_type": "display_data"})
    return outputs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        made = notebook()
        os.chdir(before)
    NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
