import gzip

import pytest
from family import FAMILY, NT, zst

from relatent.data.read.read import read
from relatent.errors import DataError, DataWarning


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("family.nt", NT.encode()),
        ("family.nt.gz", gzip.compress(NT.encode(), mtime=0)),
        ("family.nt.zst", zst(NT.encode())),
        ("bom.nt", b"\xef\xbb\xbf" + NT.encode()),
        ("family.ttl", b"@prefix : <http://x/> .\n:Ann :parent :Bob .\n:Bob :parent :Cid ; :married :Eva .\n"),
    ],
)
def test_rdf_is_read_with_iris_as_names(write, name, content):
    facts = read(write(name, content))
    assert sorted(facts.named()) == sorted(tuple(f"http://x/{part}" for part in fact) for fact in FAMILY)
    assert list(facts.entities) == sorted(facts.entities)


def test_facts_about_literals_are_left_out_and_counted(write):
    name = write("family.nt", NT + '<http://x/Ann> <http://x/age> "42" .\n<http://x/Bob> <http://x/name> "Bob"@en .\n')
    with pytest.warns(DataWarning, match=r"^family.nt: left out 2 facts whose object is a literal"):
        facts = read(name)
    assert len(facts) == 3
    assert facts.n_relations == 2


def test_blank_nodes_keep_their_labels_and_unnamed_ones_are_numbered(write):
    assert "_:x" in read(write("blank.nt", "_:x <http://x/p> <http://x/b> .\n")).entities
    name = write("blank.ttl", "@prefix : <http://x/> . :a :p [ :q :b ] , [ :q :c ] .")
    assert list(read(name).entities) == ["_:unnamed-0", "_:unnamed-1", "http://x/a", "http://x/b", "http://x/c"]
    assert read(name).fingerprint == read(name).fingerprint


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.nt", NT + "<http://x/Ann> <http://x/p> .\n", r"^f.nt:4: "),
        ("f.ttl", "@prefix : <http://x/> .\n\n:a :b .\n", r"^f.ttl:3: "),
        ("f.nt", b"<http://x/a> <http://x/p> <http://x/\xff> .\n", r"^f.nt:1: Invalid UTF-8"),
        ("f.nt", "<http://a> <http://b> <http://c> <http://graph> .\n", r"^f.nt:1: "),
        ("f.ttl", "@prefix : <http://x/> .\n:a :b <<( :c :d :e )>> .\n", r"^f.ttl: a triple about a triple"),
        ("f.nt", "", r"^f.nt: contains no facts$"),
        ("f.nt", '<a:b> <a:b> "c" .\n', r"^f.nt: contains no facts; every object is a literal \(triples: 1\)$"),
        ("f.nt.gz", gzip.compress(NT.encode() * 99, mtime=0)[:60], r"^f.nt.gz: cannot be read: .*[Tt]runcated"),
    ],
)  # fmt: skip
def test_a_fault_in_rdf_is_reported_with_its_line(write, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(name, content))


def test_rdf_has_no_columns(write):
    with pytest.raises(DataError, match=r"^family.nt: RDF has no columns to choose; leave columns= out"):
        read(write("family.nt", NT), columns=("s", "p", "o"))
