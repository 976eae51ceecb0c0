"""Old public names that keep working for one release, with a warning that gives the new name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that `old` is now called `new`."""
    warnings.warn(f"{old} is now called {new}; the old name goes in the next release", DeprecationWarning, stacklevel)


def renamed_arguments(**new_names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Accept keyword arguments by their old names: `@renamed_arguments(count="k")`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            for old, new in new_names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{function.__qualname__} got both {new}= and its old name {old}=")
                    warn_renamed(f"{function.__qualname__}({old}=…)", f"{new}=")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def renamed_method(old: str, new: str) -> Callable[..., object]:
    """A method under its old name: `as_dict = renamed_method("as_dict", "to_dict")`."""

    def method(self: object, *args: object, **kwargs: object) -> object:
        warn_renamed(f"{type(self).__name__}.{old}()", f"{new}()")
        return getattr(self, new)(*args, **kwargs)

    method.__doc__ = f"Old name of `{new}`."
    return method


def renamed_property(old: str, new: str) -> property:
    """An attribute under its old name: `chosen = renamed_property("chosen", "best")`."""

    def value(self: object) -> object:
        warn_renamed(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)

    return property(value, doc=f"Old name of `{new}`.")
