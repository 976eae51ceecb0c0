"""Presets are what was measured: nothing in them is left to be chosen from the data."""

import pytest

import relatent
from relatent.fit.presets import PRESETS
from small_graphs import chain


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_leaves_nothing_to_be_chosen(name):
    settings = relatent.preset(name, device="cpu").choose_settings(chain(3000))
    assert settings.values == {}


def test_presets_have_the_structure_that_their_names_and_documentation_say():
    structures = {name: relatent.preset(name).structure for name in PRESETS}
    special = {"fb15k-237-blocks": relatent.Blocks(4), "codex-s-complex": "complex", "codex-s-logistic": "complex"}
    assert structures == {name: special.get(name, "full") for name in PRESETS}
