"""`teucer completions SHELL`: what bash, zsh or fish need to complete the command.

Made from the parser, so that no option is forgotten.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple


class _Command(NamedTuple):
    """A command: its words, such as `cache push`, what it does, its options and its choices."""

    words: tuple[str, ...]
    help: str
    options: list[tuple[str, str]]  # a name, and what it does
    choices: list[str]  # actions, or values of its argument


def completions(shell: str, parser: argparse.ArgumentParser) -> int:
    """Print the script, to be sourced by the shell."""
    commands = list(_commands(parser, (), ""))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands))
    return 0


def _commands(
    parser: argparse.ArgumentParser, words: tuple[str, ...], text: str
) -> Iterator[_Command]:
    options, choices, inner = [], [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            for name, part in action.choices.items():
                choices.append(name)
                inner.append((part, (*words, name), helps.get(name, "")))
        elif action.option_strings:
            said = (action.help or "").replace("%(default)s", str(action.default))
            options += [(name, said) for name in action.option_strings]
        elif action.choices:
            choices += map(str, action.choices)
    yield _Command(words, text, options, choices)
    for part in inner:
        yield from _commands(*part)


def _bash(commands: list[_Command]) -> str:
    """A function that knows the words of each command; files are completed by the shell itself."""
    cases = "\n".join(
        f'        "{" ".join(one.words)}") words="'
        f'{" ".join([*one.choices, *(name for name, _ in one.options)])}" ;;'
        for one in commands
    )
    known = "|".join(" ".join(one.words) for one in commands if one.words)
    return f"""\
# For ~/.bashrc: eval "$(teucer completions bash)"
_teucer() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" at="" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "|{known}|" in
            *"|${{at:+$at }}$word|"*) at="${{at:+$at }}$word" ;;
        esac
    done
    case "$at" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    case "$cur" in -*) ;; *) [ -z "$at" ] || COMPREPLY+=($(compgen -f -- "$cur")) ;; esac
}}
complete -o filenames -F _teucer teucer"""


def _zsh(commands: list[_Command]) -> str:
    """A function for zsh's `compdef`."""
    cases = "\n".join(
        f'        "{" ".join(one.words)}") told=({_zsh_words(one)}) ;;' for one in commands
    )
    names = " ".join(f'"{" ".join(one.words)}"' for one in commands if one.words)
    return f"""\
#compdef teucer
# For ~/.zshrc, behind compinit: eval "$(teucer completions zsh)"
_teucer() {{
    local at="" word
    local -a known told
    known=({names})
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        [[ -n "${{known[(re)${{at:+$at }}$word]}}" ]] && at="${{at:+$at }}$word"
    done
    case "$at" in
{cases}
    esac
    _describe 'teucer' told
    [[ -n "$at" ]] && _files
}}
compdef _teucer teucer"""


def _zsh_words(one: _Command) -> str:
    told = [(name, "") for name in one.choices] + one.options
    return " ".join(_quoted(f"{name}:{text}" if text else name) for name, text in told)


def _fish(commands: list[_Command]) -> str:
    """Lines of fish's `complete`."""
    lines = ["# For ~/.config/fish/config.fish: teucer completions fish | source"]
    texts = {one.words: one.help for one in commands}
    for one in commands:
        asked = (
            "; and ".join(f"__fish_seen_subcommand_from {word}" for word in one.words)
            or "__fish_use_subcommand"
        )
        for name in one.choices:
            text = texts.get((*one.words, name), "")
            lines.append(
                f"complete -c teucer -n {_quoted(asked)} -a {name}"
                + (f" -d {_quoted(text)}" if text else "")
            )
        for name, text in one.options:
            kind = "-l" if name.startswith("--") else "-s"
            lines.append(
                f"complete -c teucer -n {_quoted(asked)} {kind} {name.lstrip('-')} "
                f"-d {_quoted(text)}"
            )
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "’") + "'"
