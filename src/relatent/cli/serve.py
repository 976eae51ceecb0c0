"""`relatent serve`: explore a model in the browser."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import ipaddress
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from ..errors import InputError
from .output import print_json, say
from .reading_options import reading_options
from .shared_options import further_known_option, json_option

if TYPE_CHECKING:
    from ..web.explorer import Explorer


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@further_known_option
@click.option("--test", help="Test facts; the model page shows the quality measured on them.")
@click.option(
    "--review",
    type=click.Path(path_type=Path),
    help="CSV file for decisions about missing facts: subject, relation, object, verdict. Everyone who can open the "
    "explorer can write into it.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on; 0: a free port."
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Host name under which the server may be opened, such as kg.example.org (repeatable).  [default: names of "
    "this machine; any name if --host is not a loopback address]",
)
@click.option(
    "--token",
    envvar="RELATENT_TOKEN",
    help="Require this token: in the address once, as ?token=…, or in the header Authorization: Bearer ….",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
@reading_options()
@json_option
def serve(
    model: Path,
    known: tuple[str, ...],
    test: str | None,
    review: Path | None,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    token: str | None,
    open_browser: bool,
    as_json: bool,
) -> None:
    """Explore a model in the browser: search, ask, see explanations and a map, describe new entities.

    Stop with Ctrl-C. Needs: pip install 'relatent[serve]'. The name of a benchmark means its training split, for --test
    its test split.

    Example: relatent serve presidents.relatent --open
    """
    check_installed()
    if token is not None and not token.strip():
        raise click.UsageError("--token is empty; give a secret, or leave it out")
    listener = listen(host, port)  # before reading the model, which may take long
    with contextlib.closing(listener):
        explorer = open_explorer(model, known, test, review)
        url = url_of(listener)
        if not is_loopback(host) and not token:
            say(f"warning: everyone who can reach {url} can query this model; there is no password (see --token)")
        url += f"?{urlencode({'token': token})}" if token else ""
        if as_json:
            print_json({"url": url, "model": str(model)})
        say(f"serving {model.name} at {url} (Ctrl-C stops it)")
        if open_browser:
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        run(explorer, listener, served_hosts(host, allowed_hosts), token)
    say("stopped")


def check_installed() -> None:
    """Raise an error that names the extra to install if a package is missing."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise InputError(
            "serving needs Starlette and uvicorn; install them with: pip install 'relatent[serve]' "
            "(in a clone: '.[serve]')"
        )


def open_explorer(model: Path, known: tuple[str, ...], test: str | None, review: Path | None = None) -> Explorer:
    """The explorer for a model file and its facts."""
    from ..data.review import ReviewFile
    from ..model.factors import load
    from ..web.explorer import OF_MODEL, Explorer
    from .data_argument import names_of, open_facts

    factors = load(model)
    if review is not None and factors.facts is None and not known:
        raise InputError("--review needs facts, and the model does not hold any: name them with --known DATA")
    known_facts = [open_facts(source, split="train") for source in known]
    own = [] if factors.facts is None else [OF_MODEL]
    return Explorer(
        factors,
        known_facts,
        None if test is None else open_facts(test, split="test"),
        name=model.name,
        known_name=names_of([*own, *known]),
        test_name=names_of([test] if test else []),
        file_bytes=model.stat().st_size,
        review=None if review is None else ReviewFile(review),
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; failures are raised as one-line errors."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"--host {host}: {error.strerror or error}; give an address of this machine") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(_why_not_listening(host, port, error)) from error
    return listener


def _why_not_listening(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use; stop the program that uses it, or choose another port with --port"
    if error.errno == errno.EACCES:
        return f"no permission to listen on port {port}; choose a port above 1023 with --port"
    return f"cannot listen on {host}:{port}: {error.strerror}; give an address of this machine with --host"


def url_of(listener: socket.socket) -> str:
    """The URL of the explorer."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def served_hosts(host: str, allowed: tuple[str, ...]) -> tuple[str, ...] | None:
    """The host names that requests may use; None: any."""
    from ..web.app import LOOPBACK

    if not allowed and not is_loopback(host):
        return None
    return (*LOOPBACK, host.lower(), *(name.lower() for name in allowed))


def run(explorer: Explorer, listener: socket.socket, hosts: tuple[str, ...] | None, token: str | None) -> None:
    """Serve until Ctrl-C."""
    from ..backend.blas_threads import one_blas_thread
    from ..web.app import create_app
    from ..web.limited_server import serve_app

    with one_blas_thread():  # requests already run in parallel threads
        serve_app(create_app(explorer, hosts=hosts, token=token), listener)
