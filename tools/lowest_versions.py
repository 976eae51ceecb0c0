"""Print the lowest version of each requirement, as `name==version`, for `make test-lowest`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

NOT_INSTALLED = ("gpu",)  # extras: several gigabytes
TOOLS = ("mypy", "ruff", "oxlint")  # they check the code; the tests do not need them
INDIRECT = ("anyio==4.10.0", "pyparsing==3.1.2")  # what such old versions of Starlette and Matplotlib were made for


def lowest(project: dict) -> list[str]:
    extras = project["optional-dependencies"]
    required = [
        *project["dependencies"],
        *(line for name in extras if name not in NOT_INSTALLED for line in extras[name]),
    ]
    found = (re.match(r"([\w-]+)>=([\w.]+)", line) for line in required)
    return [f"{match[1]}=={match[2]}" for match in found if match and match[1] not in TOOLS] + list(INDIRECT)


if __name__ == "__main__":
    print(*lowest(tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]))
