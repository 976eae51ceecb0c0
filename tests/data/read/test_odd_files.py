"""Files as they lie around are read right, or refused in one clear line; none is misread in silence."""

import re
import warnings

import pytest
from odd_files import ODD_FILES, Odd

from relatent.data.read.read import read
from relatent.errors import DataError


@pytest.mark.parametrize("odd", ODD_FILES, ids=[odd.title for odd in ODD_FILES])
def test_an_odd_file_is_read_right_or_refused_in_one_line(odd: Odd, write):
    name = write(odd.name, odd.content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(odd.facts, str):
            with pytest.raises(DataError, match=odd.facts) as refused:
                read(name, **odd.options)
            assert "\n" not in str(refused.value)
            assert len(str(refused.value)) < 500
            return
        facts = read(name, **odd.options)
    said = " | ".join(str(warning.message) for warning in caught)
    assert sorted(facts.named()) == sorted(odd.facts), said
    assert re.search(odd.said, said)
    assert bool(said) == bool(odd.said), said
    found = None if facts.weights is None else dict(zip(facts.named(), facts.weights.tolist(), strict=True))
    assert found == (None if odd.weights is None else dict(zip(odd.facts, odd.weights, strict=True)))
