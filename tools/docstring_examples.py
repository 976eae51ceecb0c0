"""An extension of griffe, which reads docstrings for the site: examples begin a section of their own."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = "Examples\n--------\n"


class ExampleSections(griffe.Extension):
    """Put a heading before the first `>>>` of a docstring; without it the parser takes examples for parameters."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of a class, function or method."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^>>> ", HEADING + ">>> ", obj.docstring.value, count=1, flags=re.M)
