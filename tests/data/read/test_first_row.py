"""First rows without usual column names: a header is told from a fact by the whole file, or there is a warning."""

import gzip
import random
import warnings

import pytest

from relatent.data.read.read import read
from relatent.errors import DataWarning

SHIPPERS = ["Ant", "Bear", "Crow", "Dingo", "Eagle", "Finch"]
CARGO = ["apples", "bolts", "coal", "dates", "elm"]
HEADER = ("shipper", "action", "cargo")


def shipments(n=40, seed=0):
    chosen = random.Random(seed)
    rows = [(s, r, o) for s in SHIPPERS for r in ("loads", "ships", "insures") for o in CARGO]
    chosen.shuffle(rows)
    return rows[:n]


def text(rows, sep=","):
    return "".join(sep.join(row) + "\n" for row in rows)


def read_with_notes(source, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DataWarning)
        return read(source, **options), " | ".join(str(one.message) for one in said)


@pytest.mark.parametrize("header", [HEADER, ("Shipper", "Action", "Cargo"), ("the firm", "what_it_does", "Ware")])
@pytest.mark.parametrize("name", ["f.csv", "f.tsv"])
def test_a_header_that_only_the_data_betray_is_no_fact(write, header, name):
    rows = shipments()
    facts, said = read_with_notes(write(name, text([header, *rows], "," if name == "f.csv" else "\t")))
    assert sorted(facts.named()) == sorted(rows)
    wanted = read(rows)
    assert (list(facts.entities), list(facts.relations)) == (list(wanted.entities), list(wanted.relations))
    assert facts.fingerprint == wanted.fingerprint
    assert (
        f"took the first row ({', '.join(map(repr, header))}) as column names, because it is the only one of the first"
        in said
    )
    assert "header=False reads it as a fact" in said


def test_options_say_whether_it_is_a_header(write):
    name = write("f.csv", text([HEADER, *shipments()]))
    facts, said = read_with_notes(name, header=False)
    assert HEADER in facts.named()
    assert not said
    facts, said = read_with_notes(name, header=True)
    assert HEADER not in facts.named()
    assert not said


def test_columns_by_number_leave_the_header_to_be_recognised(write):
    rows = shipments()
    turned = write("f.csv", text((o, "x", s, r) for s, r, o in [HEADER, *rows]))
    facts, said = read_with_notes(turned, columns=(2, 3, 0))
    assert sorted(facts.named()) == sorted(rows)
    assert (
        f"took the first row ({', '.join(map(repr, HEADER))}) as column names, because it is the only one of the first"
        in said
    )
    below = [(str(number), o, "x", s, r) for number, (s, r, o) in enumerate(rows)]
    wide = write("g.csv", text([("nr", "cargo", "mark", "shipper", "action"), *below]))
    facts, said = read_with_notes(wide, columns=(3, 4, 1))
    assert sorted(facts.named()) == sorted(rows)
    assert "as column names, because column 1 holds numbers below it" in said
    facts, said = read_with_notes(turned, columns=(2, 3, 0), header=False)
    assert HEADER in facts.named()
    facts, said = read_with_notes(write("h.csv", text([HEADER, *rows[:5]])), columns=(0, 1, 2))
    assert "was read as a fact, but none of its values occurs again" in said


def test_a_header_of_an_edge_list_is_no_edge(write):
    edges = [(s, o) for s, _, o in shipments(60, seed=2)]
    facts, said = read_with_notes(write("f.csv", text([("firm", "ware"), *edges])), relation="ships")
    assert set(facts.named()) == {(s, "ships", o) for s, o in edges}
    assert list(facts.relations) == ["ships"]
    assert "took the first row ('firm', 'ware') as column names" in said


def test_weights_stay_with_their_facts(write):
    rows = [(*row, str(number)) for number, row in enumerate(shipments(), 1)]
    facts, _ = read_with_notes(write("f.csv", text([(*HEADER, "tons"), *rows])))
    assert {(*fact, str(int(w))) for fact, w in zip(facts.named(), facts.weights, strict=True)} == set(rows)


@pytest.mark.parametrize("place", ["subject", "relation", "object"])
def test_the_first_rows_decide_whatever_occurs_far_below(write, place):
    last = {"subject": ("shipper", "loads", "coal"), "relation": ("Ant", "action", "coal"),
            "object": ("cargo", "loads", "coal")}[place]  # fmt: skip
    rows = [(f"{s}{i}", r, o) for i in range(40) for s, r, o in shipments()]
    assert len(rows) > 1000  # beyond the first rows
    name = write("f.csv", text([HEADER, *rows, last]))
    facts, said = read_with_notes(name)
    assert len(facts) == len(rows) + 1
    assert HEADER not in facts.named()
    assert "as column names, because column 1 holds codes with digits below it; header=False" in said
    assert HEADER in read(name, header=False).named()


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([HEADER, *shipments(12)], id="few rows"),
        pytest.param([(f"s{c}", f"r{c}", f"o{c}") for c in "abcdefghijklmnopqrstuvwxyz"], id="every value is unique"),
        pytest.param([("Zoe", "married", "Yan"), *shipments(), ("Kim", "bought", "Lee")], id="two such rows"),
        pytest.param([("Zoe", "married", "Yan"), *shipments(), ("Ant", "sinks", "coal")], id="relations used once"),
        pytest.param([("E90", "action", "E91"), *((f"E{i % 9}", f"r{i % 3}", f"E{i % 7 + 9}") for i in range(60))],
                     id="ids"),
        pytest.param([("x:q", "x:r", "x:z"), *((f"x:{s}", f"x:{r}", f"x:{o}") for s, r, o in shipments())], id="IRIs"),
        pytest.param([("JFK", "flies", "LHR"), *((a, r, b) for a in ("FRA", "CDG", "MUC", "AMS") for r in ("serves",
                     "skips") for b in ("BCN", "LIS", "OSL"))], id="codes"),
    ],
)  # fmt: skip
def test_a_first_row_that_may_be_a_fact_is_kept(write, rows):
    facts, said = read_with_notes(write("f.csv", text(rows)))
    assert sorted(facts.named()) == sorted(set(rows))
    assert "as column names, because" not in said


def test_a_fact_that_looks_like_a_header_is_kept_with_a_warning(write):
    facts, said = read_with_notes(write("f.csv", text([HEADER, *shipments(12)])))
    assert HEADER in facts.named()
    assert "was read as a fact, but none of its values occurs again; header=True" in said


def test_a_name_of_another_column_is_no_new_name(write):
    rows = [("Zoe", "cargo", "Yan"), *shipments(), ("Ant", "loads", "cargo")]
    facts, said = read_with_notes(write("f.csv", text(rows)))
    assert len(facts) == len(rows)
    assert "as column names" not in said


def test_a_compressed_file_is_understood_like_a_plain_one(write):
    content = text([HEADER, *shipments()], "\t")
    plain, _ = read_with_notes(write("f.tsv", content))
    packed, _ = read_with_notes(write("g.tsv.gz", gzip.compress(content.encode())))
    assert packed.fingerprint == plain.fingerprint
    assert len(plain) == 40


def test_a_header_of_one_file_is_one_in_the_others_of_the_call(write):
    first, second = (
        write("a.csv", text([HEADER, *shipments(40)])),
        write("b.csv", text([HEADER, *shipments(3, seed=1)])),
    )
    wanted = {*shipments(40), *shipments(3, seed=1)}
    facts, said = read_with_notes([first, second])
    assert set(facts.named()) == wanted
    assert "b.csv" not in said
    assert HEADER in read_with_notes(second)[0].named()
