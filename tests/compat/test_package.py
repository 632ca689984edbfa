"""`teucer compat check PACKAGE`: what source uses of JAX, and on which releases it would run."""

import textwrap

from compat_process import python


def check(folder, code=0, **files):
    """What the command prints of a package with these files."""
    package = folder / "package"
    package.mkdir(exist_ok=True)
    for name, text in files.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text))
    return python(
        f"""
        import sys
        from teucer.cli import main
        sys.argv[1:] = ["compat", "check", {str(package)!r}]
        code = main()
        assert code == {code}, code
        """,
        before="",
    )


def section(text, title):
    """The lines of a section, without their places."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(title):
            return [" ".join(each.split()) for each in iter(lambda: next(lines), "")]
    return []


def test_kinds_of_uses(tmp_path):
    text = check(
        tmp_path,
        code=1,
        __init__="raise RuntimeError('imported')",
        a="""
            import jax, jax.numpy as jnp
            from jax import lax
            from jax._src.core import no_such_name
            from jax.core import Primitive
            import jax.experimental.shard_map as old

            def f(x, jnp2=None):
                return jnp.clip(x, a_min=0) + jax.tree_map(lax.sin, x) + old.shard_map

            def g(lax):
                return lax.not_of_jax, jnp.no_such_function

            kind = jax.sharding.AxisType.Auto, jax.sharding.AxisType.Neither
        """,
        b="""
            import jax
            try:
                from jax.nowhere import nothing
            except ImportError:
                nothing = None
            if hasattr(jax, "other"):
                jax.other
        """,
        test_c="import jax.no_tests",
        bad="def (:",
    )
    assert "4 files" in text
    missing = section(text, "Missing here")
    assert [line.split()[0] for line in missing] == [
        "jax._src.core.no_such_name",
        "jax.nowhere.nothing",
        "jax.numpy.no_such_function",
        "jax.other",
        "jax.sharding.AxisType.Neither",
        "jax.tree_map",
    ]
    guarded = [line.endswith("(guarded)") for line in missing]
    assert guarded == [False, True, False, True, False, False]
    gone = section(text, "Not in the newest")
    assert "jax.core.Primitive up to 0.5.3; is here a.py:5" in gone
    assert "jax.tree_map up to 0.5.3 a.py:9" in gone
    assert section(text, "Keywords") == ["jax.numpy.clip(a_min=) up to 0.9.2 a.py:9"]
    assert section(text, "Deprecated") == ["jax.experimental.shard_map.shard_map a.py:9"]
    assert [s.split()[0] for s in section(text, "Private")] == ["jax._src.core.no_such_name"]
    assert "bad.py:1 is no Python that can be read" in text
    assert "4 of them are missing" in text


RUNS_ON = {
    "import jax; jax.tree.map": "releases 0.4.30 to 0.12.0.1.",
    "import jax; jax.shard_map": "0.6.1 to 0.12.0.1; before these jax.shard_map is not there.",
    "import jax; jax.tree_map": "0.4.30 to 0.5.3; after these jax.tree_map is not there.",
    "import jax; jax.tree_map, jax.shard_map": (
        "no release has both jax.shard_map (from 0.6.1 on) and jax.tree_map (up to 0.5.3)."
    ),
    "from jax.numpy import clip; clip(1, a_max=2)": (
        "0.4.30 to 0.9.2; after these jax.numpy.clip(a_max=) is not there."
    ),
    "import jax\ntry: jax.tree_map\nexcept AttributeError: jax.tree.map": "to 0.12.0.1.",
    "import jax; jax.never_was": "no release has jax.never_was, which it does not guard.",
}


def test_the_releases_on_which_it_runs(tmp_path):
    python(f"""
        from pathlib import Path
        from teucer.compat import _package
        file = Path({str(tmp_path)!r}, "a.py")
        for source, said in {RUNS_ON!r}.items():
            file.write_text(source)
            text = _package.check(file).text
            assert said in text, (source, text)
    """)


def test_a_package_that_is_not_there():
    said = python(
        """
        import sys
        from teucer.cli import main
        sys.argv[1:] = ["compat", "check", "no_such_package"]
        assert main() != 0
        """,
        before="",
        check=False,
    )
    assert "there is no package, folder or file no_such_package" in said


def test_the_newest_release_is_known_as_it_is_here():
    # Names that data and library agree on; what is not here is refused or unbuilt.
    python("""
        from teucer.compat._package import _absent
        from teucer.compat._releases import releases
        known = releases()
        newest = len(known.order) - 1
        assert known.order[-1] == "0.12.0.1" and known.whole == (0, newest)
        for module in ("jax", "jax.numpy", "jax.lax", "jax.random", "jax.nn", "jax.tree"):
            names = [n for n, (_, last) in known.modules[module].items() if last == newest]
            absent = [n for n in names if n != "." and _absent(f"{module}.{n}")]
            assert len(names) > 8 and len(absent) <= 3, (module, absent)
    """)
