"""A Python process reads this as it starts, so that `import jax` gives Teucer; it loads nothing
before that import.

`teucer run` puts the folder of this file on PYTHONPATH, and the wheel of `teucer compat wheel`
contains the file. It imports neither Teucer at its top nor anything that a small program would not
load.
"""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class Finder:
    """Finds jax where Teucer is installed. Loading it installs the alias, whose own finder comes
    before this one."""

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> "ModuleSpec | None":
        if name != "jax" or importlib.util.find_spec("teucer") is None:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: object) -> None:
        # Teucer refuses to be imported beside a module named jax.
        del sys.modules["jax"]
        import teucer.compat

        sys.modules["jax"] = teucer

    def find_distributions(self, context: "object | None" = None) -> "list[object]":
        """The distribution `jax`, with the version of jaxlib, if no wheel brings metadata."""
        name = getattr(context, "name", None)
        path = [os.path.abspath(entry) for entry in getattr(context, "path", sys.path)]
        text = os.path.join(_FOLDER, "METADATA")
        if name not in (None, "jax") or _FOLDER not in path or not os.path.exists(text):
            return []
        return [_distribution(text)]


def _distribution(text: str) -> object:
    # Whoever asks for distributions has loaded this already.
    from importlib import metadata
    from pathlib import Path

    release = metadata.version("jaxlib").partition(".dev")[0].partition("+")[0]

    class Distribution(metadata.PathDistribution):
        def read_text(self, filename: "str | os.PathLike[str]") -> "str | None":
            if filename != "METADATA":
                return None
            head, _, rest = Path(text).read_text().partition("\nName: jax\n")
            return f"{head}\nName: jax\nVersion: {release}\n{rest}"

    return Distribution(Path(_FOLDER) / "jax.dist-info")


sys.meta_path.insert(0, Finder())
