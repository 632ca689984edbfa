"""Write docs/guide/commands.md from the parser of the `teucer` command.

tools/commands.py            write it
tools/commands.py --check    fail if it is not fresh
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from teucer.cli import _main  # noqa: E402  # the path stands above

PAGE = ROOT / "docs" / "guide" / "commands.md"
HEAD = """\
# Command line

<!-- Made by tools/commands.py from the parser. -->

`teucer COMMAND` and `python -m teucer COMMAND` are the same. `teucer COMMAND --help` prints what is
below. `eval "$(teucer completions bash)"` lets bash complete commands and options; zsh and fish
have completions as well.

A command ends with status 0 if all is well, 1 if the program fails or faults are found, 2 if the
command cannot be done.

## Arguments of functions

`jaxpr`, `show`, `check`, `export` and `plan` take a function as `FILE:FUNCTION`, or a method as
`FILE:Model.loss` or `FILE:model.loss`. `--args` is written as Python writes a call:

| written | what it is |
| --- | --- |
| `f32[3,4]`, `float32[3,4]`, `i32[]` | a type |
| `f32[b,4]` | a type with a size of any number (`check`, `export`) |
| `f32[8@x,4]`, `f32[8,4]@P("x")` | a type that lies over the mesh that `--mesh x=4` says |
| `{"w": f32[3], "b": (f32[], None)}` | a tree |
| `2.0`, `"mean"`, `True` | a value |
| `load("x.npy")`, `load("p.npz")`, `load("n.json")` | values of a file |
| `params`, `config.sizes`, `init(3)`, `Model(w=f32[3])` | what FILE defines |
| `mode="train"` | an argument by name |
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for name, command in _main.command_parsers(_main.parser()).items():
        parts.append(_section(name, command))
    return "\n".join(parts)


def _section(name: str, command: argparse.ArgumentParser) -> str:
    text = _helps(_main.parser()).get(name, "")
    said = textwrap.fill(f"{text[:1].upper()}{text[1:]}.", 100, break_on_hyphens=False)
    rows = "".join(f"| {written} | {told} |\n" for written, told in _rows(command, ()))
    return (
        f"## {name}\n\n{said}\n\n| | |\n| --- | --- |\n{rows}" if rows else f"## {name}\n\n{said}\n"
    )


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    """What the commands of a parser do."""
    return {
        one.dest: one.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for one in action._choices_actions
    }


def _rows(command: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The arguments of a command, and of the actions below it, as they are written, with what they
    say."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield f"`{' '.join((*words, name))}`", _helps(command).get(name, "")
                yield from _rows(inner, (*words, name))
        elif not isinstance(action, argparse._HelpAction):
            value = "" if action.nargs == 0 else _value(action)
            written = [f"{o} {value}".strip() for o in action.option_strings] or [value]
            told = (action.help or "").replace("%(default)s", str(action.default))
            yield (
                " ".join(f"`{' '.join((*words, one))}`" for one in written),
                told.replace("|", "\\|"),
            )


def _value(action: argparse.Action) -> str:
    if action.choices:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def main() -> int:
    """Write the page, or say whether it is fresh."""
    text = page()
    if "--check" in sys.argv[1:]:
        fresh = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        if not fresh:
            print(f"{PAGE.relative_to(ROOT)} is not fresh: run tools/commands.py", file=sys.stderr)
        return int(not fresh)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
