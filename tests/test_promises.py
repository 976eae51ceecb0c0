"""Promises of the program as a whole, kept by looking at its source."""

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import relatent

SOURCE = Path(relatent.__file__).resolve().parent
MODULES = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in sorted(SOURCE.rglob("*.py"))}
LAYERS = {
    name: level
    for level, names in enumerate(
        (
            ("errors",),
            (
                "arrays",
                "atomic_write",
                "file_lock",
                "compile_cache",
                "csv_rows",
                "json_values",
                "parameter_checks",
                "progress",
                "random_state",
            ),
            ("result_tables", "tensor_file"),
            ("backend", "distributed"),
            ("data",),
            ("model",),
            ("cells",),
            ("fit",),
            ("baselines",),
            ("evaluation",),
            ("analysis",),
            ("plots",),
            ("web",),
            ("cli",),
        )
    )
    for name in names
}
MOST_KERNEL_ARGUMENTS = 8  # positional ones; more belong into NamedTuples
DOORS = {"__init__", "__main__"}  # what users enter by: these name modules of every layer


def imported(path: Path) -> set[str]:
    """Modules of relatent that a file imports, as dotted paths from the package's root."""
    package = path.relative_to(SOURCE).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            found |= {f"{module}.{alias.name}".strip(".") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "relatent":
            found |= {f"{node.module}.{alias.name}".removeprefix("relatent.") for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "relatent"]
            found |= {name.removeprefix("relatent.") for name in names}
    return found


def top_level_imports(path: Path) -> set[str]:
    """Other people's packages that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.split(".")[0])
    return found


def layer_of(module: str) -> str:
    return module.split(".")[0]


@pytest.mark.parametrize("module", sorted(set(MODULES) - DOORS))
def test_imports_point_one_way_only(module):
    """backend, distributed ← data ← model ← cells ← fit ← baselines ← evaluation ← analysis ← plots ← web ← cli"""
    own = layer_of(module)
    for other in imported(MODULES[module]):
        layer = layer_of(other)
        if layer != own and layer != "__version__":
            assert LAYERS[layer] < LAYERS[own], f"{module} imports {other}"


def test_every_module_lies_in_a_layer():
    assert {layer_of(module) for module in MODULES} - DOORS == set(LAYERS)


def imported_modules(module: str) -> set[str]:
    """Modules of relatent that a module imports, also inside functions."""
    names = imported(MODULES[module])
    parents = {name.rpartition(".")[0] for name in names}
    return {name for name in names | parents if name in MODULES} - {module}


def test_no_module_imports_itself_by_way_of_others():
    graph = {module: imported_modules(module) for module in MODULES if module not in DOORS}
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the modules


def decorators(function: ast.FunctionDef) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))


@pytest.mark.parametrize("module", MODULES)
def test_kernels_take_few_arguments_by_position(module):
    """Numba's kernels take NamedTuples; Triton's take pointers one by one, which their launches give by name."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.FunctionDef) and "njit" in decorators(node):
            assert len(node.args.args) <= MOST_KERNEL_ARGUMENTS, f"{module}.{node.name}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):  # kernel[grid](…)
            assert len(node.args) <= MOST_KERNEL_ARGUMENTS, f"{module}: {ast.unparse(node.func)}"


def test_no_two_classes_share_a_name():
    places: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(module)
    assert not {name: modules for name, modules in places.items() if len(modules) > 1}


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"fit.losses"}))
def test_only_losses_ask_what_a_loss_is(module):
    source = MODULES[module].read_text()
    assert not re.search(r"type\((self\.)?_?loss\)|isinstance\((self\.)?_?loss,", source)


def test_public_names_resolve_and_are_all_that_dir_shows():
    for name in relatent.__all__:
        assert getattr(relatent, name) is not None
    assert sorted(dir(relatent)) == sorted([*relatent.__all__, "__version__"])


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'relatent' has no attribute 'RescalGuess'"):
        relatent.RescalGuess


def test_no_public_name_hides_a_module_or_folder():
    """`import relatent.split` would replace the function relatent.split, were there such a module."""
    beside = {module.name for module in pkgutil.iter_modules([str(SOURCE)])}
    assert not beside & set(relatent.__all__)
    assert not {path.stem for path in SOURCE.iterdir()} & set(relatent.__all__)


def test_importing_relatent_imports_nothing_heavy():
    heavy = ("numpy", "scipy", "sklearn", "numba", "pyarrow", "pandas", "polars", "joblib", "torch", "rich", "click")
    code = f"import sys, relatent; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_pickled(module):
    assert not top_level_imports(MODULES[module]) & {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}


def public_members():
    for name in relatent.__all__:
        public = getattr(relatent, name)
        yield name, public
        if inspect.isclass(public):
            for member, value in vars(public).items():
                plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
                if not member.startswith("_") and (callable(plain) or isinstance(plain, property)):
                    yield f"{name}.{member}", plain


@pytest.mark.parametrize(
    ("name", "member"), list(public_members()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_public_name_has_a_docstring_whose_first_line_is_short(name, member):
    text = inspect.getdoc(member)
    assert text, name
    assert len(text.splitlines()[0]) <= 120
    assert not text.startswith(f"{name.split('.')[-1]}("), "dataclasses write that if nobody else does"


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is(module):
    assert ast.get_docstring(ast.parse(MODULES[module].read_text()))


@pytest.mark.parametrize("module", MODULES)
def test_randomness_enters_by_a_seeded_generator_only(module):
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "random":
            assert node.attr in ("default_rng", "Generator", "SeedSequence"), f"{module}: random.{node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "default_rng":
            assert node.args, f"{module}: a generator without a seed"
