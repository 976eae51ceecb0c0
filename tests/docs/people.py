"""Example files that the pages speak of: people.tsv, newcomers.tsv, train.tsv, test.tsv."""

from pathlib import Path

TOWNS = {"Oslo": ("Norway", "Norwegian"), "Rome": ("Italy", "Italian"), "Lyon": ("France", "French")}
NAMES = {
    "Oslo": ["Ann", "Bo", "Cai", "Dag", "Eli", "Finn", "Gro", "Hans", "Ida", "Jon"],
    "Rome": ["Aldo", "Bice", "Ciro", "Dora", "Elio", "Fabia", "Gino", "Ilda", "Livia", "Marco"],
    "Lyon": ["Alix", "Benoit", "Chloe", "Denis", "Elise", "Fabien", "Gisele", "Hugo", "Irene", "Jules"],
}


def facts() -> list[tuple[str, str, str]]:
    """Where thirty people were born, what they speak, where they are citizens, and whom they know."""
    found = []
    for town, (country, language) in TOWNS.items():
        people = NAMES[town]
        for number, name in enumerate(people):
            found += [(name, "born in", town), (name, "speaks", language), (name, "citizen of", country)]
            found += [(name, "knows", people[(number + step) % len(people)]) for step in (1, 2)]
    return found


def write(folder: Path) -> None:
    """Write the example files into a folder."""
    rows = ["\t".join(fact) for fact in facts()]
    held_out = [row for number, row in enumerate(rows) if number % 10 == 3]
    files = {
        "people.tsv": rows,
        "train.tsv": [row for row in rows if row not in held_out],
        "test.tsv": held_out,
        "newcomers.tsv": ["Eve\tborn in\tOslo", "Eve\tspeaks\tNorwegian"],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
