"""The names of one release of JAX, as that release lists them when it is asked.

`releases_names.py > FILE`, run by `tools/releases.py` in an environment with that release. It
imports the modules of the package `jax`, and writes a line of JSON a module: its name, its names,
the parameters of its functions, the members of its enumerations, and the names that the release
itself deprecates or has removed, with what it says about them. It reads no source.
"""

import enum
import importlib
import inspect
import json
import os
import pkgutil
import warnings

warnings.simplefilter("ignore")
LEFT_OUT = (
    "jax.tools",
    "jax.experimental.jax2tf",
    "jax.experimental.mosaic",
    "jax._src.lib.mlir",
    "jax._src.internal_test_util",
    "jax.extend.mlir.dialects",
    "jax.jaxlib",
)

FAILED = []


def modules(package):
    """The package and the modules under it, those that can be imported here."""
    yield package
    for found in pkgutil.iter_modules(getattr(package, "__path__", ())):
        name = f"{package.__name__}.{found.name}"
        last = found.name
        private = last.startswith("_") and name != "jax._src"
        if private or last.endswith("_test") or name.startswith(LEFT_OUT):
            continue
        try:
            module = importlib.import_module(name)
        except BaseException:  # it needs a package, or a machine, that is not there
            FAILED.append(name)
            continue
        yield from modules(module)


def parameters(value):
    """Names of the parameters that can be given by name, or None where any name can be."""
    if not callable(value) or isinstance(value, type):
        return None
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in found):
        return None
    return " ".join(p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


def main():
    jax = importlib.import_module("jax")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(jax.__version__, out)
    out.write("\n")
    for module in modules(jax):
        private = module.__name__.startswith("jax._src")
        names, calls, members = [], {}, {}
        for name in sorted(vars(module)):
            if name.startswith("__"):
                continue
            if not private and name.startswith("_"):
                continue
            value = vars(module)[name]
            names.append(name)
            if private:
                continue
            given = parameters(value)
            if given is not None:
                calls[name] = given
            if isinstance(value, type) and issubclass(value, enum.Enum):
                members[name] = sorted(value.__members__)
        for name in dir(module):  # names that a module gives only when they are asked for
            if not name.startswith("_") and name not in names:
                try:
                    getattr(module, name)
                except Exception:
                    continue
                names.append(name)
        said = {}
        entries = getattr(module, "_deprecations", None)
        for name, entry in (entries if isinstance(entries, dict) else {}).items():
            message, value = entry[0], entry[1]
            gone = value is None
            said[name] = [message, gone]
            if gone and name in names:
                names.remove(name)
            if not gone and name not in names:
                names.append(name)
        json.dump([module.__name__, sorted(names), calls, members, said], out)
        out.write("\n")
    json.dump(["failed", FAILED], out)
    out.write("\n")
    out.flush()
    os._exit(0)


main()
