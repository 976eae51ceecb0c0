"""Every example in a docstring gives what it says."""

import doctest
import importlib
import pkgutil

import pytest

import relatent

OPTIONAL = {"relatent.backend.torch_backend", "relatent.backend.triton_kernels", "relatent.backend.compact_kernels"}
OPTIONAL |= {"relatent.cells.logistic_gpu_kernels", "relatent.cells.logistic_gpu_corrections"}
OPTIONAL |= {"relatent.cells.logistic_gpu"}  # they need torch and Triton
OPTIONAL |= {"relatent.cells.logistic_sampled_gpu"}
MODULES = [
    module.name
    for module in pkgutil.walk_packages(relatent.__path__, "relatent.")
    if module.name not in OPTIONAL | {"relatent.__main__"}
]


def examples(module: str) -> list[doctest.DocTest]:
    """The docstrings of a module that have examples."""
    loaded = importlib.import_module(module)
    return [test for test in doctest.DocTestFinder(exclude_empty=True).find(loaded) if test.examples]


def test_there_are_examples_to_run():
    assert sum(len(test.examples) for module in MODULES for test in examples(module)) >= 65


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_give_what_they_say(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in examples(module):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
