"""`teucer compat check`: which jax the programs of an environment get; and the names of JAX that
packages use."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence

from teucer.cli._errors import CommandError

# In a process of its own, since this one has Teucer. Nothing named jax is imported.
_ASKED = """
import importlib.metadata, importlib.util, json
spec = importlib.util.find_spec("jax")
found = [
    (d.version, str(d.locate_file("")), any(f.name == "teucer_as_jax.py" for f in d.files or ()))
    for d in importlib.metadata.distributions(name="jax")
]
jaxlib = importlib.metadata.version("jaxlib")
print(json.dumps([spec and type(spec.loader).__module__, spec and spec.origin, found, jaxlib]))
"""
_KEEP = (
    "Put Teucer's wheel back: pip install --no-deps --force-reinstall WHEEL (teucer compat wheel "
    "builds it).\n  Keep it: give pip install the option -c constraints.txt, the file beside the "
    "wheel, or set PIP_CONSTRAINT to it."
)


def check() -> str:
    """A text that says which package `import jax` finds in a new process of this environment.

    Raises CommandError if it is not Teucer, or if JAX's files are there as well.
    """
    asked = subprocess.run(
        [sys.executable, "-c", _ASKED], check=True, capture_output=True, text=True
    ).stdout
    loader, origin, found, jaxlib = json.loads(asked.splitlines()[-1])
    others = [f"jax {version} in {place}" for version, place, own in found if not own]
    if loader is None:
        raise CommandError(
            "there is no jax in this environment.\n  Programs: teucer run. For pip: install what "
            "teucer compat wheel builds."
        )
    if loader not in ("teucer_as_jax", "teucer.compat._alias"):
        raise CommandError(
            f"import jax gives JAX, not Teucer: {', '.join(others) or 'a package'}, {origin}.\n"
            f"  pip puts JAX in the place of Teucer's wheel where a package needs another version "
            f"of jax.\n  {_KEEP}"
        )
    stands_behind = [o for o in others if "_startup" not in o]
    if stands_behind:
        raise CommandError(
            f"import jax gives Teucer, and {', '.join(stands_behind)} is installed as well, of "
            "which importlib.metadata may speak.\n  Remove it: pip uninstall jax, as often as it "
            f"takes. {_KEEP}"
        )
    release = re.match(r"[\d.]*\d", jaxlib)
    stale = [version for version, _, own in found if own and release and version != release[0]]
    if stale:
        raise CommandError(
            f"the wheel says jax {stale[0]}, and jaxlib is {jaxlib}; import jax gives Teucer.\n"
            "  pip chooses libraries by the wheel's version. Build it anew, by teucer compat "
            "wheel, and install that one."
        )
    return "import jax gives Teucer"


def check_packages(packages: Sequence[str]) -> int:
    """Print the names of JAX that packages use; returns 1 if a name that one needs is missing.

    Raises CommandError if there is no such package or path.
    """
    # Late, because it installs the alias, which the other commands do without.
    from teucer.compat import _package

    missing = False
    for package in packages:
        place = _package.locate(package)
        if place is None:
            raise CommandError(
                f"there is no package, folder or file {package}.\n  Name an installed package as "
                "programs import it, or a path."
            )
        report = _package.check(place)
        print(report.text)
        missing |= report.missing
    return int(missing)


def check_alias(packages: Sequence[str]) -> int:
    """Print what packages use of JAX; without any, which jax there is."""
    if packages:
        return check_packages(packages)
    print(check())
    return 0
