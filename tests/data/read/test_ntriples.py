import io
import warnings

import numpy as np
import pyarrow as pa
import pyoxigraph
import pytest

from relatent.data.read import ntriples
from relatent.data.read.files import identify
from relatent.data.read.rdf import Literals
from relatent.data.read.read import read
from relatent.errors import DataError

COMMON = "<http://x/Ann> <http://x/parent> <http://x/Bob> .\n"
LINES = [  # sound ones and faulty ones: pyoxigraph says which
    "<a:b> <a:b> <a:c> .",
    "\t <a:b>\t<a:b>  <a:c>. \t",
    "<a:b><a:b><a:c>.",
    "<a:b> <a:b> <a:c> .\r",
    "<a:b> <a:b> <a:c> .\r<a:b> <a:b> <a:d> .",
    "# <a:b> <a:b> <a:c> .",
    "# a comment\r<a:b> <a:b> <a:c> .",
    "<a:b> <a:b> <a:c> . # yes",
    "   ",
    "\r",
    "<a:b> <a:b>",
    "<a:b> <a:b> <a:c>",
    "<a:b> <a:b> <a:c> . <a:d> <a:d> <a:d> .",
    "<a:b> <a:b> <a:c> <a:g> .",
    "<a:b> <a:b> <a:c> ..",
    "<a:b> _:b <a:c> .",
    "_:a <a:b> _:1c .",
    "_:a.b <a:b> _:c-d .",
    "_:a <a:b> _:c.",
    "_:a <a:b> _:c. ",
    "_:a <a:b> _:-c .",
    "_:a <a:b> _: .",
    "_:é <a:b> _:中 .",
    "_:a#b <a:b> <a:c> .",
    "<_:a> <a:b> <a:c> .",
    "<a:b> <a:b> <> .",
    "<a:b> <a:b> <rel> .",
    "<a:b> <a:b> <:b> .",
    "<a:b> <a:b> <1a:b> .",
    "<a:b> <a:b> <a+b.c-1:b> .",
    "<a:b> <a:b> <a:> .",
    "<a:b> <a:b> <A:b> .",
    "<a:b> <a:b> <http://x y> .",
    "<a:b> <a:b> <http://x/%zz> .",
    "<a:b> <a:b> <http://x/%4> .",
    "<a:b> <a:b> <http://x/%C3%a9?q=%20#f> .",
    "<a:b> <a:b> <http://x/[> .",
    "<a:b> <a:b> <http://[::1]:80/> .",
    "<a:b> <a:b> <http://x:80/> .",
    "<a:b> <a:b> <http://x:80a/> .",
    "<a:b> <a:b> <http://a@b_c/x> .",
    "<a:b> <a:b> <http:///x> .",
    "<a:b> <a:b> <http://> .",
    "<a:b> <a:b> <http://x?a#b> .",
    "<a:b> <a:b> <http://x/a#b#c> .",
    "<a:b> <a:b> <http://x/!$&'()*+,-./:;=?@_~> .",
    "<a:b> <a:b> <http://x/a|b> .",
    "<a:b> <a:b> <http://x/{}> .",
    "<a:b> <a:b> <http://x/`> .",
    "<a:b> <a:b> <http://x/^> .",
    '<a:b> <a:b> <http://x/"> .',
    "<a:b> <a:b> <http://x/\\u00e9> .",
    "<a:b> <a:b> <http://x/\\U0001F600> .",
    "<a:b> <a:b> <http://x/\\n> .",
    "<a:b> <a:b> <http://x/é中> .",
    "<a:b> <a:b> <http://x/\ue000> .",
    "<a:b> <a:b> <http://x/\ufeff> .",
    "<a:b> <a:b> <http://x/\x01> .",
    "<a:b> <a:b> <http://x/\x7f> .",
    "<a:b>\x0b<a:b> <a:c> .",
    '"x" <a:b> <a:c> .',
    '<a:b> "x" <a:c> .',
    '<a:b> <a:b> "x" .',
    '<a:b> <a:b> "x".',
    '<a:b> <a:b> "" .',
    '<a:b> <a:b> "x . <a:c>" .',
    '<a:b> <a:b> "x\\"y\\n" .',
    '<a:b> <a:b> "x\\q" .',
    '<a:b> <a:b> "a\tb\x00é" .',
    '<a:b> <a:b> "x\ry" .',
    '<a:b> <a:b> "x .',
    '<a:b> <a:b> "x"y .',
    '<a:b> <a:b> "x"@en .',
    '<a:b> <a:b> "x"@en-GB .',
    '<a:b> <a:b> "x"@en.',
    '<a:b> <a:b> "x"@e .',
    '<a:b> <a:b> "x"@ .',
    '<a:b> <a:b> "x" @en .',
    '<a:b> <a:b> "x"@en-verylongsubtagindeed .',
    '<a:b> <a:b> "x"@en--ltr .',
    '<a:b> <a:b> "x"^^<http://www.w3.org/2001/XMLSchema#integer> .',
    '<a:b> <a:b> "x"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString> .',
    '<a:b> <a:b> "x"^^<int> .',
    '<a:b> <a:b> "x"^<a:b> .',
    '<a:b> <a:b> "x"^^a:b .',
    '<a:b> <a:b> "x"#<a:b> .',
    '<new:s> <new:p> "x" .',
    '<new s> <new:p> "x" .',
    '<new:s> <newp> "x" .',
    "<a:b> <a:b> <<( <a:b> <a:b> <a:b> )>> .",
    "@prefix : <http://x/> .",
]


def outcome(reading, file):
    """The facts and what was warned of, or the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            facts = reading(file)
        except DataError as problem:
            return str(problem)
    return facts.named(), list(facts.entities), list(facts.relations), [str(each.message) for each in caught]


def by_pyoxigraph(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ntriples, "scanned_facts", lambda *_: None)
        return outcome(read, path)


@pytest.mark.parametrize("line", LINES)
def test_the_scanner_and_pyoxigraph_agree_on_every_kind_of_line(line, tmp_path, monkeypatch):
    for number, content in enumerate((line, COMMON + line, COMMON + line + "\n" + COMMON)):
        path = tmp_path / f"{number}.nt"
        path.write_bytes(content.encode())
        assert outcome(read, path) == by_pyoxigraph(path, monkeypatch)


@pytest.mark.parametrize("text", [b'"\xff"', b"<http://x/\xff>", b"<http://x/a> . # \xff"])
def test_broken_utf8_is_reported_as_pyoxigraph_does(text, tmp_path, monkeypatch):
    path = tmp_path / "broken.nt"
    path.write_bytes(COMMON.encode() + b"<a:b> <a:b> " + text + b" .\n")
    assert "broken.nt:2: Invalid UTF-8" in outcome(read, path) or "# " in text.decode(errors="ignore")
    assert outcome(read, path) == by_pyoxigraph(path, monkeypatch)


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_sound_lines_in_any_mix_and_any_blocks_give_what_pyoxigraph_gives(block, tmp_path, monkeypatch):
    monkeypatch.setattr(ntriples, "BLOCK_BYTES", block)
    sound = [line for line in LINES if is_sound(line)]
    rng = np.random.default_rng(block)
    path = tmp_path / "mix.nt"
    path.write_bytes("\n".join(rng.choice(sound, 200)).encode())
    assert len(sound) > 30
    assert outcome(read, path) == by_pyoxigraph(path, monkeypatch)


def is_sound(line):
    try:
        quads = list(pyoxigraph.parse(io.BytesIO(line.encode()), format=pyoxigraph.RdfFormat.N_TRIPLES))
    except SyntaxError:
        return False
    return not any(isinstance(quad.object, pyoxigraph.Triple) for quad in quads)


def test_common_lines_never_reach_pyoxigraph(tmp_path, monkeypatch):
    path = tmp_path / "common.nt"
    path.write_text(COMMON + "_:a <http://x/parent> <urn:x-y:z> .\n" + '<a:b> <a:b> "x" .\n')
    monkeypatch.setattr(ntriples, "_parse", lambda text: iter(()) if not text else pytest.fail(f"asked about {text}"))
    monkeypatch.setattr(ntriples, "_check_suffixes", lambda suffixes: None)
    literals = Literals()
    builder = ntriples.scan(identify(path), lambda *_: None, literals)
    assert (builder.n_facts, literals.counts.total()) == (2, 1)


def test_a_name_called_plain_is_sound():
    rng = np.random.default_rng(0)
    letters = np.array(list("ab:/.#%19Zé?@[]_-~ :/"))
    names = ["".join(rng.choice(letters, rng.integers(1, 8))) for _ in range(20_000)]
    names += ["a:" + name for name in names] + ["a://" + name for name in names]
    plain = ntriples.are_plain(pa.array(names)).to_pylist()
    called = [name for name, yes in zip(names, plain, strict=True) if yes]
    text = "".join(f"{name if name.startswith('_:') else f'<{name}>'} <a:b> <a:b> .\n" for name in called)
    assert len(called) > 1000
    assert sum(1 for _ in pyoxigraph.parse(io.BytesIO(text.encode()), format=pyoxigraph.RdfFormat.N_TRIPLES)) == len(
        called
    )
