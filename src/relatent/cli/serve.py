"""`relatent serve`: a model in the browser."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import ipaddress
import socket
import threading
from pathlib import Path
from typing import Any

import click

from ..errors import InputError
from .output import json_option

GRACE = 2  # seconds that answers under way have after Ctrl-C


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--known",
    multiple=True,
    help="Known facts, such as those the model was learned from: shown, and reasons (repeatable).",
)
@click.option("--test", help="Facts to measure the model by, for the model's page.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0: any that is free.")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
@json_option
def serve(
    model: Path, known: tuple[str, ...], test: str | None, host: str, port: int, open_browser: bool, as_json: bool
) -> None:
    """Explore a model in the browser: search, ask, see why, map, add an entity. Ctrl-C ends it.

    Needs: pip install 'relatent[serve]'. A benchmark's bare name means its training split, for --test its test split.

    Example: relatent serve presidents.relatent --known presidents --open
    """
    import json

    check_installed()
    listening = listen(host, port)  # first of all: reading may take long
    with contextlib.closing(listening):
        explorer = open_explorer(model, known, test)
        url = address(listening)
        if not is_loopback(host):
            click.echo(f"warning: whoever can reach {url} can ask this model; there is no password", err=True)
        if as_json:
            click.echo(json.dumps({"url": url, "model": str(model)}))
        click.echo(f"{model.name} at {url} (Ctrl-C ends it)", err=True)
        if open_browser:
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        run(explorer, listening, host)
    click.echo("stopped", err=True)


def check_installed() -> None:
    """Say how to get what serving needs, where it is missing."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise InputError("serving needs Starlette and uvicorn; install them with: pip install 'relatent[serve]'")


def open_explorer(model: Path, known: tuple[str, ...], test: str | None) -> Any:
    """The model and its facts, read and indexed."""
    from ..analysis.known_facts import KnownFacts
    from ..model.factors import load
    from ..web.views import Explorer
    from .sources import open_facts

    factors = load(model)
    facts = [open_facts(source, split="train") for source in known]
    tested = None if test is None else open_facts(test, split="test")
    for source, one in zip((*known, test), (*facts, tested), strict=True):
        if one is not None and not len(one.over(factors.entities, factors.relations)):
            raise InputError(f"{model} knows the names of no fact of {source}; give facts of the same data")
    return Explorer(
        factors,
        KnownFacts(facts, factors) if facts else None,
        None if tested is None else KnownFacts(tested, factors),
        name=model.name,
        known_name=", ".join(known),
        test_name=test or "",
        file_bytes=model.stat().st_size,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; a port that is taken, or a host that is not ours, is said in one line."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"--host {host}: {error.strerror or error}; give an address of this machine") from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(where)
        found.listen(1024)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is in use; end what runs there, or give another --port") from error
        if error.errno == errno.EACCES:
            raise InputError(f"port {port} is not for you; give one above 1023 with --port") from error
        raise InputError(f"cannot listen at {host}:{port}: {error.strerror}; give another --host") from error
    return found


def address(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(explorer: Any, listening: socket.socket, host: str) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    from ..backend.blas_threads import one_blas_thread
    from ..web.app import LOOPBACK, create_app

    app = create_app(explorer, hosts=(*LOOPBACK, host.lower()) if is_loopback(host) else None)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=GRACE
    )
    with one_blas_thread(), contextlib.suppress(KeyboardInterrupt):  # requests are the threads
        uvicorn.Server(config).run(sockets=[listening])
