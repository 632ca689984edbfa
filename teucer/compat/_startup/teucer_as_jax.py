"""What a Python process reads as it starts, so that `import jax` gives Teucer; it loads nothing
before that import.

`teucer run` puts the folder of this file on PYTHONPATH, and the wheel of `teucer compat wheel`
contains the file. It imports neither Teucer at its top nor anything that a small program would not
load.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec


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


sys.meta_path.insert(0, Finder())
