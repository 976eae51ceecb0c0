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
        "A newcomer's way through relatent: read facts, let it choose a model, see how good that is, ask, and ask why. "
        "It takes about a minute. Only the last picture needs an extra: `pip install 'relatent[plot]'`.\n\n"
        "This file is made, and its outputs kept, by `python tools/build_walkthrough.py`.",
    ),
    (
        "markdown",
        "## Facts\n\nA fact is a row *(subject, relation, object)*. Here people live in one of two towns, speak its "
        "language, and are friends with people of their own town; two languages are missing from the table.",
    ),
    (
        "code",
        "from pathlib import Path\n\n"
        'towns = {"Oslo": "Norwegian", "Rome": "Italian"}\n'
        "people = {\n"
        '    "Oslo": ["Ada", "Bo", "Eli", "Finn", "Gro", "Ida", "Jon", "Kari", "Liv", "Nils"],\n'
        '    "Rome": ["Aldo", "Bice", "Carla", "Dino", "Elsa", "Gino", "Lia", "Mara", "Nino", "Rosa"],\n'
        "}\n"
        'rows = ["subject,relation,object"]\n'
        "for town, names in people.items():\n"
        "    for i, name in enumerate(names):\n"
        '        rows.append(f"{name},lives in,{town}")\n'
        '        if name not in ("Bo", "Rosa"):\n'
        '            rows.append(f"{name},speaks,{towns[town]}")\n'
        "        for step in (1, 2, 3):\n"
        '            rows.append(f"{name},friend of,{names[(i + step) % len(names)]}")\n'
        'Path("people.csv").write_text("\\n".join(rows) + "\\n")\n'
        'print("\\n".join(rows[:6]))',
    ),
    ("code", 'import relatent\n\nfacts = relatent.read("people.csv")\nfacts'),
    (
        "markdown",
        "## A first model\n\n`RescalLogit` gives every entity a vector and every relation a matrix. Who speaks what "
        "Bo speaks? The table does not say. A small world wants small penalties.",
    ),
    (
        "code",
        "model = relatent.RescalLogit(rank=6, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_\n"
        'for name, score, probability in zip(*model.top(subject="Bo", relation="speaks", k=2)):\n'
        '    print(f"{name:10} {probability:.2f}")',
    ),
    (
        "markdown",
        "## Let it choose\n\n`tune` holds cells out and tries models, ranks and penalties on them. By default it takes "
        "two minutes; `trials=12` begins with twelve settings instead, so that this page comes out the same again.",
    ),
    (
        "code",
        'report = relatent.tune(facts, trials=12, models=["logit", "als"])\nprint(report.sentence)\n'
        "for trial in report.trials[:4]:\n"
        '    print(f"{trial.score:.3f}  {trial.candidate}")',
    ),
    (
        "markdown",
        "## How good is it?\n\nThe best of many figures flatters itself a little. So the choice is measured again, on "
        "other folds, beside what needs no model at all.",
    ),
    (
        "code",
        "measured = relatent.cross_validate(report.best, facts, folds=5, random_state=1)\n"
        'print(f"average precision {measured.average_precision:.2f}")\n'
        "for name, figures in measured.baselines.items():\n"
        "    print(f\"{figures['average_precision']:.2f}  {name}\")",
    ),
    ("markdown", "## Why?\n\nThe known facts without which the score would be lower, the strongest first."),
    (
        "code",
        "model = report.factors_\n"
        'why = relatent.explain(model, "Bo", "speaks", "Norwegian", known=facts)\nprint(why.sentence)\n'
        "for reason in why.reasons[:3]:\n"
        '    print(f"{reason.influence:+.2f}  {reason.subject} {reason.relation} {reason.object}")',
    ),
    (
        "markdown",
        "## Somebody new\n\nEve is in no fact above. Two facts about her are enough for a vector; nothing is fitted "
        "again. `others=0.1`: what is not said of her is hardly taken as false.",
    ),
    (
        "code",
        'eve = relatent.Facts.from_arrays(["Eve", "Eve"], ["lives in", "friend of"], ["Rome", "Dino"])\n'
        "larger = model.fold_in(eve, others=0.1)\n"
        'print(larger.top(subject="Eve", relation="speaks", k=1).names)\n'
        'print([one.name for one in relatent.similar(larger, "Eve", k=3)])',
    ),
    ("markdown", "## Who belongs together?"),
    (
        "code",
        "for group in relatent.groups(model, n_groups=3):\n    print(sorted(group.names))",
    ),
    ("markdown", "## A picture, and a file to keep"),
    (
        "code",
        "from relatent.serve.pictures import entity_map\n\n"
        'model.save("people.relatent")\n'
        'entity_map(model, "people").savefig("map.png", dpi=60)\n'
        'relatent.load("people.relatent")',
    ),
    (
        "markdown",
        "The same from a shell: `relatent tune people.csv -o people.relatent`, `relatent predict people.relatent "
        "--subject Bo --relation speaks`, `relatent serve people.relatent --known people.csv --open`. "
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
