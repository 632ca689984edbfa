"""Import every module of packages, and print for each what came of it.

`walk.py PACKAGE...`, run by `tools/libraries.py` under JAX and under Teucer. A line of JSON a
module: its name, and the error or null. It runs nothing but the modules themselves, and leaves out
tests, and commands that begin as they are imported.
"""

import importlib
import importlib.util
import json
import os
import pkgutil
import re
import sys
import traceback
import warnings
from collections.abc import Iterator

# Tests, benchmarks and programs, by the parts of their names.
LEFT_OUT = re.compile(
    r"(^|\.)(_*main_*|setup|conftest|tests?|testdata|testing_?\w*|test_\w+|\w+_tests?|benchmarks?|"
    r"\w*benchmark\w*|examples?|demos?|notebooks?|colab\w*|scripts?)(\.|$)"
)


def modules(package: str) -> Iterator[str]:
    """The package and its modules, parents first, found in folders without importing them."""
    yield package
    spec = importlib.util.find_spec(package)
    pending = [(package, list(spec.submodule_search_locations or ()) if spec else [])]
    while pending:
        name, places = pending.pop()
        for found in pkgutil.iter_modules(places):
            full = f"{name}.{found.name}"
            if not LEFT_OUT.search(full):
                yield full
                if found.ispkg:
                    pending.append((full, [os.path.join(p, found.name) for p in places]))


def outcome(name: str) -> str | None:
    """None, or the error that importing the module raises, in a line."""
    try:
        importlib.import_module(name)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit is an outcome, too
        if os.environ.get("WALK_TRACEBACKS"):
            traceback.print_exc()
        text = str(error).strip().splitlines()
        return f"{type(error).__name__}: {text[0] if text else ''}"
    return None


def main() -> None:
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what modules print as they are imported goes to the errors
    arguments, sys.argv[1:] = sys.argv[1:], []
    for package in arguments:
        for name in sorted(modules(package)):
            print(json.dumps([name, outcome(name)]), file=out, flush=True)
    out.flush()
    os._exit(0)  # threads that modules began


if __name__ == "__main__":
    main()
