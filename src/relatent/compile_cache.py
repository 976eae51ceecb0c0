"""A folder for compiled code where neither the package nor the user's cache can be written, as in many containers.

Numba compiles nothing that is to be cached if it has no folder for it. It looks for NUMBA_CACHE_DIR, the folder of the
source file and the user's cache folder, in that order.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def ensure_cache_folder() -> None:
    """Choose a temporary folder if Numba would find none, and say so; without any folder, compile without a cache."""
    if os.name == "nt" or os.environ.get("NUMBA_CACHE_DIR") or any(map(_is_writable, _usual_folders())):
        return
    import tempfile  # slow to import

    try:
        usual = Path(tempfile.gettempdir()) / f"relatent-numba-{os.getuid()}"
        is_new = not usual.exists()
        folder = usual if _made_private(usual) else Path(tempfile.mkdtemp(prefix="relatent-numba-"))
    except OSError:
        from numba.core.dispatcher import Dispatcher

        Dispatcher.enable_caching = lambda self: None  # type: ignore[method-assign]
        where, is_new = "there is no folder to keep compiled code in, so each process compiles it again", True
    else:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)  # also for child processes
        if "numba" in sys.modules:
            sys.modules["numba"].config.CACHE_DIR = str(folder)
        where = f"compiled code is kept in {folder}"
    if is_new:
        print(f"note: {where}; set NUMBA_CACHE_DIR to a folder that can be written", file=sys.stderr)


def _usual_folders() -> tuple[Path, ...]:
    """The folders in which Numba keeps compiled code: beside the source, and the user's cache."""
    home = Path(os.path.expanduser("~"))
    cache = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return Path(__file__).parent, Path(os.environ.get("XDG_CACHE_HOME") or cache) / "numba"


def _is_writable(folder: Path) -> bool:
    """Whether files can be written in a folder, or in the one that would have to be created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _made_private(folder: Path) -> bool:
    """Create the folder; whether only this user can write to it, which matters as code is loaded from it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
