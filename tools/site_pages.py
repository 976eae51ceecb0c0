"""Hooks of MkDocs: pages that are made from other files of the repository when the site is built.

The home page is README.md; changelog, security and contributing are the files beside it; the walkthrough is the
notebook; the reference lists every public name. So nothing is written twice.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FROM_ROOT = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
}
SECTIONS = {  # folder of the package: heading
    "data": "Facts",
    "fit": "Models and their parts",
    "baselines": "Baselines",
    "model": "Fitted models",
    "analysis": "Questions to a model",
    "evaluation": "Evaluation and settings",
    "plots": "Plots",
    "distributed": "Several machines",
    "": "Results, errors and warnings",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that have no file under docs/."""
    from mkdocs.structure.files import File

    pages = {page: (ROOT / source).read_text(encoding="utf-8") for page, source in FROM_ROOT.items()}
    pages["walkthrough.md"] = notebook_page(ROOT / "docs" / "walkthrough.ipynb")
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Adapt links and fences to the site, and fill in the reference."""
    text = re.sub(r"^( *```\w+) needs=\S+$", r"\1", markdown, flags=re.M)
    for name, source in FROM_ROOT.items():
        text = re.sub(rf"\]\((\.\./)?{source}(?=[)#])", f"]({name}", text)
    text = text.replace("](docs/walkthrough.ipynb)", "](walkthrough.md)").replace("](docs/", "](")
    text = text.replace("](LICENSE)", "](contributing.md#licences)")
    return text.replace("<!-- reference -->", reference()) if page.file.src_uri == "reference.md" else text


def reference() -> str:
    """One heading per part of the package, with the directives of its public names."""
    import relatent

    names: dict[str, list[str]] = {heading: [] for heading in SECTIONS.values()}
    for name in relatent.__all__:
        names[SECTIONS.get(relatent._HOME[name].split(".")[1], SECTIONS[""])].append(name)
    blocks = [
        f"## {heading}\n\n" + "\n\n".join(f"::: relatent{relatent._HOME[name]}.{name}" for name in found)
        for heading, found in names.items()
    ]
    return "\n\n".join(blocks)


def notebook_page(path: Path) -> str:
    """The cells of a notebook and their outputs as Markdown."""
    blocks = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
            continue
        blocks += [f"```python\n{source}\n```", *map(output_block, cell["outputs"])]
    return "\n\n".join(blocks) + "\n"


def output_block(output: dict[str, Any]) -> str:
    """One output: an image, a table, or text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        return f"![output](data:image/png;base64,{''.join(data['image/png']).strip()})"
    if "image/svg+xml" in data or "text/html" in data:
        return "".join(data.get("image/svg+xml") or data["text/html"])
    return f"```text\n{''.join(data['text/plain'])}\n```"
