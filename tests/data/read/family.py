"""A family of four in every format, for the tests of the readers."""

import pyarrow as pa

FAMILY = [("Ann", "parent", "Bob"), ("Bob", "parent", "Cid"), ("Bob", "married", "Eva")]
TSV = "".join("\t".join(fact) + "\n" for fact in FAMILY)
CSV = TSV.replace("\t", ",")
NT = "".join(f"<http://x/{s}> <http://x/{r}> <http://x/{o}> .\n" for s, r, o in FAMILY)


def zst(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content, asbytes=True)


def table():
    return pa.table(dict(zip("abc", zip(*FAMILY, strict=True), strict=True)))


def is_family(facts):
    return sorted(facts.named()) == sorted(FAMILY) and list(facts.entities) == ["Ann", "Bob", "Cid", "Eva"]
