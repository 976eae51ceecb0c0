"""random_state arguments: ints, Generators and None."""

import numpy as np
import pytest

from relatent.errors import InputError
from relatent.random_state import to_generator, to_seed


def test_an_int_is_the_seed_itself():
    assert to_seed(7) == to_seed(np.int64(7)) == 7
    assert to_generator(7).random() == np.random.default_rng(7).random()


def test_a_generator_is_drawn_from():
    generator = np.random.default_rng(0)
    assert to_generator(generator) is generator
    assert to_seed(generator) != to_seed(generator)
    assert to_seed(np.random.default_rng(1)) == to_seed(np.random.default_rng(1))


def test_none_gives_another_seed_each_time():
    assert to_seed(None) != to_seed(None)


@pytest.mark.parametrize("value", [-1, 1.5, "7", True, np.random.RandomState(0)])
def test_other_values_raise(value):
    for function in (to_seed, to_generator):
        with pytest.raises(InputError, match="random_state must be a whole number of at least 0, a numpy Generator or"):
            function(value)
