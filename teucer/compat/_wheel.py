"""The wheel named jax: metadata, a finder, and a line that installs the finder as Python starts.

It has no code of JAX.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from teucer._xla.client import jaxlib_version
from teucer.compat._alias import STARTUP
from teucer.compat._version import __version__

_WHEEL = "Wheel-Version: 1.0\nGenerator: teucer\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build(folder: Path) -> Path:
    """Write jax-VERSION-py3-none-any.whl into a folder, which is made if need be; returns its path.

    VERSION is the release of JAX that the installed jaxlib belongs to, and the wheel requires this
    jaxlib. The same bytes each time. Beside it stands constraints.txt, with which pip keeps it.
    """
    info = f"jax-{__version__}.dist-info"
    startup = Path(STARTUP)
    files = {
        "teucer_as_jax.py": (startup / "teucer_as_jax.py").read_text(),
        "teucer_as_jax.pth": "import teucer_as_jax\n",
        f"{info}/METADATA": _metadata((startup / "METADATA").read_text()),
        f"{info}/WHEEL": _WHEEL,
        f"{info}/top_level.txt": "teucer_as_jax\n",
    }
    lines = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"jax-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name), text)
    (folder / "constraints.txt").write_text(f"jax @ {path.resolve().as_uri()}\n")
    return path


def _metadata(text: str) -> str:
    """The metadata with the version, and the jaxlib that it is the version of."""
    head, name, rest = text.partition("\nName: jax\n")
    body, requires, extras = rest.partition("Requires-Dist: teucer\n")
    own = f"Requires-Dist: jaxlib=={jaxlib_version.partition('+')[0]}\n"
    return f"{head}{name}Version: {__version__}\n{body}{requires}{own}{extras}"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
