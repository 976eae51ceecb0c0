"""A running server, and pages that fail the test if one of their scripts fails."""

import asyncio
import socket
import threading
from contextlib import contextmanager

TIMEOUT_MS = 20_000


@contextmanager
def running(app):
    """The application on a free port, in a thread; gives its address."""
    import uvicorn

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@contextmanager
def opened(chromium, **settings):
    """A page; the test fails if one of its scripts fails or violates the content security policy."""
    context = chromium.new_context(viewport=settings.pop("viewport", {"width": 1180, "height": 820}), **settings)
    context.set_default_timeout(TIMEOUT_MS)
    page, failures = context.new_page(), []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda message: failures.append(message.text) if "Content Security" in message.text else None)
    try:
        yield page
        assert not failures
    finally:
        context.close()


def section(page, relation, role="subject"):
    """The card of one relation on the page of an entity."""
    return page.locator(f'section[data-relation="{relation}"][data-role="{role}"]')
