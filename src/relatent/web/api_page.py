"""The page /api: the endpoints, for people."""

from __future__ import annotations

import html
import json

from .openapi import Endpoint, Parameter


def api_page(endpoints: tuple[Endpoint, ...]) -> str:
    """HTML that lists every endpoint and its parameters."""
    return PAGE.replace("{endpoints}", "\n".join(_section(endpoint) for endpoint in endpoints))


def _section(endpoint: Endpoint) -> str:
    rows = "".join(_row(parameter) for parameter in endpoint.parameters)
    details = f"<table>{rows}</table>" if rows else ""
    if endpoint.body is not None:
        schema = html.escape(json.dumps(endpoint.body, indent=1))
        details = f"<details><summary>Body</summary><pre>{schema}</pre></details>"
    result = "bytes" if endpoint.result is bytes else endpoint.result.__name__
    progress = " Until it is computed: 202 with the progress." if endpoint.in_background else ""
    return (
        f"<section><h2><code>{endpoint.method} {endpoint.path}</code></h2><p>{html.escape(endpoint.summary)} "
        f"Returns <code>{result}</code>.{progress}</p>{details}</section>"
    )


def _row(parameter: Parameter) -> str:
    default = "" if parameter.default is None else f"default {parameter.default}"
    return (
        f"<tr><th scope=row><code>{parameter.name}</code></th><td>{html.escape(parameter.description)}</td>"
        f"<td>{'required' if parameter.required else default}</td></tr>"
    )


PAGE = """<!doctype html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content="width=device-width">
<title>API · relatent</title>
<link rel=icon href=/web/mark.svg>
<link rel=stylesheet href=/web/style.css>
<main class="page prose">
<p><a href=/>relatent</a></p>
<h1>API</h1>
<p>Everything the pages show is also available as JSON.
<a href=/api/openapi.json>openapi.json</a> describes the API for programs.</p>
<p>Every error has the form <code>{"error": {"code", "message", "remedy"}}</code>;
for an unknown name, <code>close</code> lists similar names.</p>
{endpoints}
</main>
"""
