"""Write docs/walkthrough.ipynb: run its cells in order and keep what they show. Needs relatent[plot]."""

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
        "A newcomer's way through relatent: read facts, ask, let it choose a model, see how good that is, and ask why. "
        "It takes less than a minute. Only the last picture needs an extra: `pip install 'relatent[plot]'`.\n\n"
        "This file is made, and its outputs kept, by `python tools/build_walkthrough.py`.",
    ),
    (
        "markdown",
        "## Facts\n\nA fact is a row *(subject, relation, object)*. Here people live in five towns, one street each. "
        "They speak the town's language, went to its school, work for its firm, and are friends with those who live "
        "up to four doors away.",
    ),
    (
        "code",
        "from pathlib import Path\n\n"
        "towns = {  # language, firm, and who lives along the street\n"
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
        "## What is not known\n\nWhat a table does not say counts as false, unless you tell that it is *unknown*. Let "
        "us take eight facts away and call the whole row unknown, so that the model cannot see which answer is "
        "missing. Nor do we ask who is their own friend.",
    ),
    (
        "code",
        "import numpy as np\n\n"
        'questions = [("Bo", "speaks"), ("Dino", "speaks"), ("Rosa", "lives in"), ("Remi", "lives in"),\n'
        '             ("Jules", "works at"), ("Cas", "works at"), ("Ines", "went to"), ("Lotte", "went to")]\n'
        "right = {(s, r): o for s, r, o in everything.named() if (s, r) in questions}\n\n"
        "who, what = everything.entities, everything.relations\n"
        "unknown = [(who.id(s), what.id(r), other) for s, r in questions for other in range(len(who))]\n"
        'unknown += [(one, what.id("friend of"), one) for one in range(len(who))]\n'
        "facts = everything.hold_out(np.array(unknown), masked=True)\n"
        "facts",
    ),
    (
        "markdown",
        "## Let it choose, and ask\n\nA model gives every entity a vector and every relation a matrix. `tune` tries "
        "models, ranks and penalties on cells it holds out, and fits the best to all facts. By default it takes two "
        "minutes; `trials=12` begins with twelve settings instead, so that this page comes out the same again.",
    ),
    (
        "code",
        'report = relatent.tune(facts, trials=12, models=["logit", "als"])\nprint(report.sentence)',
    ),
    ("markdown", "Now the eight questions: the two best answers of all entities, with their probabilities."),
    (
        "code",
        "model = report.factors_\n"
        "for subject, relation in questions:\n"
        "    (first, second), _, (p, q) = model.top(subject=subject, relation=relation, k=2)\n"
        '    verdict = "right" if first == right[subject, relation] else "wrong"\n'
        '    print(f"{subject:5} {relation:8} {first} {p:.2f} ({verdict}), then {second} {q:.2f}")',
    ),
    (
        "markdown",
        "## How good is it?\n\nEight answers prove little, and the best of many settings flatters itself. So the "
        "choice is measured again: every known cell is held out once, a fifth at a time. Average precision is 1 if all "
        "true cells come before all false ones; beside it is what needs no model at all.",
    ),
    (
        "code",
        "measured = relatent.cross_validate(report.unfitted_estimator, facts, folds=5, random_state=1)\n"
        'print(f"{measured.average_precision:.2f}  the model")\n'
        "for name, figures in measured.baselines.items():\n"
        "    print(f\"{figures['average_precision']:.2f}  {name}\")\n"
        'print("\\nby relation:")\n'
        "for name, figures in measured.per_relation.items():\n"
        '    print(f"{figures.average_precision:.2f}  {name}")',
    ),
    (
        "markdown",
        "Friendships are harder than the rest: somebody who lives just too far away looks much like somebody who does "
        "not.\n\n"
        "## Why?\n\nThe known facts without which the score, in log-odds, would be lower; the strongest first.",
    ),
    (
        "code",
        'why = relatent.explain(model, "Bo", "speaks", "Norwegian", known=facts)\nprint(why.sentence)\n'
        "for reason in why.reasons:\n"
        '    print(f"{reason.influence:+.2f}  {reason.subject} {reason.relation} {reason.object}")',
    ),
    (
        "markdown",
        "## Somebody new\n\nEve is in no fact above. She lives in Rome and Dino is her friend: that is enough for a "
        "vector, and nothing is fitted again. `others=0`: what is not said of her is open, not false. Her other "
        "friends should be Dino's neighbours, who are Aldo, Bice, Carla, Elsa, Fabio, Gino and Lia.",
    ),
    (
        "code",
        'eve = relatent.Facts.from_arrays(["Eve", "Eve"], ["lives in", "friend of"], ["Rome", "Dino"])\n'
        "larger = model.fold_in(eve, others=0)\n"
        'for relation, k in [("speaks", 2), ("works at", 2), ("went to", 2), ("friend of", 5)]:\n'
        '    names, _, p = larger.top(subject="Eve", relation=relation, k=k, exclude=eve)\n'
        '    print(f"{relation:9}", ", ".join(f"{name} {value:.2f}" for name, value in zip(names, p)))',
    ),
    (
        "markdown",
        "## Who belongs together?\n\nGroups of entities of which the model says alike things. How many there are is "
        "found as well; nobody has told it of five towns.",
    ),
    (
        "code",
        "found = relatent.groups(model)\n"
        "for group in found:\n"
        '    print(len(group.names), ", ".join(sorted(group.names)))\n'
        "    for one in group.typical[:1]:\n"
        '        print(f"    typical: {one.relation} {one.neighbour}, {one.probability:.2f} against "\n'
        '              f"{one.elsewhere:.2f} elsewhere")',
    ),
    (
        "markdown",
        "Five groups are the people of the five towns; the others hold what is no person.\n\n"
        "## A picture, and a file to keep\n\nEntities that are alike lie close together, coloured by group. The "
        "streets can be walked from door to door; towns, languages, schools and firms keep to themselves in between.",
    ),
    (
        "code",
        "from relatent.serve.pictures import entity_map\n\n"
        'model.save("people.relatent")\n'
        'entity_map(model, "people").savefig("map.png", dpi=90)\n'
        'relatent.load("people.relatent")',
    ),
    (
        "markdown",
        "The same from a shell: `relatent tune people.csv -o people.relatent --model logit --model als`, "
        "`relatent predict people.relatent --subject Bo --relation 'friend of'`, "
        "`relatent serve people.relatent --known people.csv --open`. "
        "[Which model, when](guide.md) goes on from here.",
    ),
]


def run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell as a notebook does: what it prints, and the value of its last line."""
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
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def _outputs(printed: str, value: Any, count: int) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    if Path("map.png").exists():
        picture = {"image/png": base64.b64encode(Path("map.png").read_bytes()).decode()}
        outputs.append({"data": picture, "metadata": {}, "output_type": "display_data"})
    return outputs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        made = notebook()
        os.chdir(before)
    NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
