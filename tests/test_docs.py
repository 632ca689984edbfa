"""Every Python snippet of README.md and docs/ runs; those of one page share their names, in order.

A snippet that is no program (bad examples of the style guide) is fenced as ```python no-run.
"""

import ast
import fnmatch
import functools
import importlib
import re
from pathlib import Path

import pytest

import teucer

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    text = page.read_text()
    names = {"__name__": "__snippet__"}
    for match in SNIPPET.finditer(text):
        # Empty lines before it, so that an error names the line of the page.
        source = "\n" * (text[: match.start(1)].count("\n")) + match[1]
        exec(compile(source, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


# Files of other projects, of a user, or made by programs; names of JAX that Teucer has no use for.
NOT_OURS = {
    "style.md": {"numpy_jvps.py", "numpy_vjps.py", "pattern.md", "spec.md", "runge_kutta.py"}
    | {"gradient.py", "ops.cpp", "spec.py"},
    "compat.md": {"jax.X", "jax._src.X", "jax.version", "jax.lib.__version__"}
    | {"jax.util", "jax.extend.ffi", "jax.lib.xla_bridge", "jax.lib.xla_client"},
    "coming_from_jax.md": {"jax._src"},
    "libraries.md": {"jax._src", "jax.tree_map", "jax.device_put_replicated"}
    | {"jax.experimental.colocated_python.func"},
    "saving.md": {"jax.experimental.jax2tf"},  # loaded only where TensorFlow is
    "CONTRIBUTING.md": {"lax.sech", "jnp.sech"},  # its example
    "design.md": {"jax.uses_shape_polymorphism"},  # attributes of modules
    "sharding.md": {"jax.buffer_donor"},
}


def exists(name):
    """Whether a public name such as `jax.lax.sin` is one of the library."""
    first, *rest = name.split(".")
    found = teucer if first == "jax" else importlib.import_module(f"teucer.{ALIASES[first]}")
    for part in rest:
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
    return True


ALIASES = {"jnp": "numpy", "lax": "lax"}
QUOTED = re.compile(r"`([^`\n]+)`")
A_NAME = re.compile(r"((?:jax|jnp|lax)(?:\.\w+)+)(?:\(.*\))?")
A_FILE = re.compile(r"[\w./-]+\.(?:py|md|sh|cpp)")


@functools.cache
def our_files():
    return [
        path.relative_to(ROOT).as_posix()
        for folder in ("teucer", "tests", "tools", "benchmarks", "examples", "docs", ".")
        for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_named_is_there(page):
    """Files and public names in backticks exist."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    missing = set()
    for quoted in QUOTED.findall(prose):
        if A_FILE.fullmatch(quoted):
            if not any(f"/{path}".endswith(f"/{quoted}") for path in our_files()):
                missing.add(quoted.rpartition("/")[2])
        elif (name := A_NAME.fullmatch(quoted)) and not exists(name[1]):
            missing.add(name[1])
    assert missing - NOT_OURS.get(page.name, set()) == set()


def sentences(text):
    """The sentences of a page's paragraphs and lists; tables, titles, snippets and indented blocks
    have none."""
    prose = re.sub(r"```.*?```|^    [^\n]*$", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[|#])", prose):
        if part.strip() and part.strip()[0] not in "|#":
            yield from re.split(r"(?<=[.!?])\s+(?=[A-Z`*(])", " ".join(part.split()))


def test_long_sentences_are_rare():
    """Of more than 35 words is less than one sentence in 33."""
    found = [sentence for page in PAGES for sentence in sentences(page.read_text())]
    long = [sentence for sentence in found if len(sentence.split()) > 35]
    assert len(found) > 1500
    assert len(long) < 0.03 * len(found), max(long, key=len)


def docstring_sentences(path):
    """The sentences of a file's docstrings; `name: what it is` begins one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for part in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
                prose = " ".join(part.partition(">>>")[0].split())
                begins = r"[A-Z`(\d]|[\w*]+(?:, [\w*]+)*(?::| ->) "
                yield from re.split(rf"(?<=[.:;!?])\s+(?={begins})", prose)


def test_docstrings_have_few_long_sentences():
    """Of more than 35 words is one in seven hundred. Most of them are lists of signatures."""
    files = sorted((ROOT / "teucer").rglob("*.py"))
    found = [text for path in files for text in docstring_sentences(path)]
    long = [text for text in found if len(text.split()) > 35]
    assert len(found) > 15000
    assert len(long) < 0.0014 * len(found), max(long, key=len)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_prose_is_wrapped_at_100(page):
    """Snippets are as wide as code, and tables as wide as they are."""
    prose = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    assert [
        line
        for line in prose.splitlines()
        if len(line) > 100 and not line.startswith(("|", "    "))
    ] == []


@pytest.mark.parametrize("name", ["Makefile", "pyproject.toml", ".ci/run"])
def test_files_of_the_project_are_at_most_100_wide(name):
    assert [line for line in (ROOT / name).read_text().splitlines() if len(line) > 100] == []


def test_sentences_are_found():
    text = (
        "# A title\n\nOne. Two is\nlonger.\n\n- `three`; four.\n| a table. Row |\n\n```python\n"
        "x = 1. + 2.\n```\n"
    )
    assert list(sentences(text)) == ["One.", "Two is longer.", "- `three`; four."]


def test_every_page_is_on_the_site():
    lines = (ROOT / "docs" / "index.md").read_text().splitlines()
    pages = [
        str(page.relative_to(ROOT / "docs").with_suffix(""))
        for page in PAGES
        if page.is_relative_to(ROOT / "docs")
    ]
    assert [
        page
        for page in pages
        if page != "index" and not any(fnmatch.fnmatch(page, line) for line in lines)
    ] == []


def test_readme_has_snippets():
    assert SNIPPET.search((ROOT / "README.md").read_text())


def module_of(path):
    return path.relative_to(ROOT / "teucer" / "lax").parts[0].removesuffix(".py")


def test_rules_say_the_order_of_the_modules_of_lax():
    """Each module of lax imports only modules that docs/rules.md names before it, and is named
    there."""
    block = re.search(r"```text\n(_.*?)```", (ROOT / "docs" / "rules.md").read_text(), re.DOTALL)
    place = {module: i for i, module in enumerate(block[1].split())}
    modules = {module_of(path): [] for path in (ROOT / "teucer" / "lax").rglob("*.py")}
    del modules["__init__"]
    assert sorted(place) == sorted(modules)
    for path in (ROOT / "teucer" / "lax").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("teucer.lax")
                and module_of(path) in modules
            ):
                inner = node.module.split(".")[2:3]
                modules[module_of(path)] += inner or [
                    a.name for a in node.names if a.name in modules
                ]
    late = [
        (module, other)
        for module, others in modules.items()
        for other in others
        if place[other] > place[module]
    ]
    assert not late
