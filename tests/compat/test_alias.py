"""The alias `jax`.

The three ways in, each in a process of its own, since it changes the process.
"""

import importlib.metadata
import os
import sys
import zipfile
from pathlib import Path

import pytest
from compat_process import python

import teucer

ROOT = Path(__file__).parent.parent.parent


def test_the_modules_are_teucers_own():
    print(
        python("""
        import sys, teucer
        assert "jax" in sys.modules
        import jax, jax.numpy as jnp, jax.random, jax.scipy.special
        from jax import lax, tree_util
        from jax.experimental import checkify
        assert jax is teucer
        assert jnp is teucer.numpy
        assert jax.random is teucer.random
        assert lax is teucer.lax
        assert sys.modules["jax.scipy.special"] is teucer.scipy.special
        assert checkify is teucer.experimental.checkify
        names = jax.__name__, jnp.__name__, jax.nn.__name__, lax.__name__
        assert names == ("jax", "jax.numpy", "jax.nn", "jax.lax")
        assert jnp.sin.__module__ == "jax.numpy"
        assert jax.jit.__module__ == "jax"
        assert jax.random.normal.__module__ == "jax.random"
        assert jax.errors.UnexpectedTracerError.__module__ == "jax.errors"
        assert jax.grad(jnp.sin)(0.0) == 1.0
    """)
    )


def test_versions():
    python("""
        import importlib.metadata, importlib.util
        import jax, jax.version, jax.lib
        release = importlib.metadata.version("jaxlib")
        assert jax.__version__ == jax.version.__version__ == release
        assert importlib.metadata.version("jax") == release
        [found] = importlib.metadata.distributions(name="jax")
        assert found.metadata["Name"] == "jax" and "teucer" in found.requires
        numbers = tuple(map(int, release.split(".")))
        assert jax.__version_info__ == jax.version.__version_info__ == numbers
        assert jax.lib.__version__ == importlib.metadata.version("jaxlib")
        assert importlib.util.find_spec("jax") is not None
        assert importlib.util.find_spec("jax.numpy") is not None
    """)


def test_the_version_is_known_before_anything_is_loaded():
    # A process that a program starts, or one of teucer run.
    startup = ROOT / "teucer" / "compat" / "_startup"
    python(
        """
        import importlib.metadata as metadata, sys
        assert metadata.version("jax") == metadata.version("jaxlib")
        assert "jax" in {found.name for found in metadata.distributions()}
        assert "teucer" not in sys.modules
        """,
        before="",
        env={"PYTHONPATH": os.pathsep.join([str(startup), str(ROOT)])},
    )


@pytest.mark.parametrize("version", ["0.13.1", "0.13.1.dev20270101", "0.14.0.3+local"])
def test_an_unknown_jaxlib_is_tried(version):
    # Teucer's own version does not follow.
    release = version.partition(".dev")[0].partition("+")[0]
    python(
        f"""
        import jaxlib.version
        jaxlib.version.__version__ = {version!r}
        import teucer
        assert teucer.__version__ == {teucer.__version__!r}
        import teucer.compat, jax, jax.numpy as jnp
        assert jax.__version__ == {release!r}
        assert jax.__version_info__ == tuple(map(int, {release!r}.split(".")))
        x = jax.random.normal(jax.random.key(0), (2, 3, 8, 8))
        y = jax.jit(lambda x: jax.lax.conv(x, x[:, :, :3, :3], (1, 1), "SAME") @ x[0, 0])(x)
        assert y.shape == (2, 2, 8, 8) and jnp.isfinite(y).all()
        """,
        before="",
    )


def test_missing_names_raise_as_in_jax():
    python("""
        import importlib.util, jax, pytest
        assert not hasattr(jax, "tree_map")
        assert not hasattr(jax.numpy, "nope")
        assert hasattr(jax, "jit")
        with pytest.raises(AttributeError, match="module 'jax.numpy' has no attribute 'nope'"):
            jax.numpy.nope
        with pytest.raises(ImportError, match="cannot import name 'nope' from 'jax'"):
            from jax import nope
        for name in ("jax.nope", "jax.cli", "jax.compat", "jax.numpy.nope"):
            with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
                __import__(name)
        assert importlib.util.find_spec("jax.nope") is None
    """)


def test_private_names():
    python(
        """
        import importlib
        import jax, pytest
        from teucer.compat._private import LIST
        for module, (libraries, sources) in LIST.items():
            place = importlib.import_module("jax._src." + module)
            assert libraries.strip()
            for source, names in sources.items():
                for item in names.split():
                    if item == "*":
                        whole = importlib.import_module(source)
                        for n in dir(whole):
                            assert n.startswith("_") or getattr(place, n) is getattr(whole, n)
                    else:
                        getattr(place, item.partition("=")[0])
        assert jax._src.core.Tracer is jax.core.Tracer and jax._src.traceback_util.api_boundary
        assert not hasattr(jax._src.core, "Nope") and not hasattr(jax._src, "nope")
        said = "jax._src.core.Nope is private in JAX.* Use a public name"
        with pytest.raises(ImportError, match=said):
            from jax._src.core import Nope
        said = "(?s)jax._src.image is private in JAX.*Use jax.image"
        with pytest.raises(ImportError, match=said):
            import jax.image, jax._src.image.scale
    """.replace("in JAX.* Use", "in JAX(?s:.*)Use")
    )


def test_private_adapters_do_something():
    python("""
        import inspect, sys
        import jax
        from jax._src import core, tree_util, util, distributed, dtypes, traceback_util
        from jax._src.api_util import infer_argnums_and_argnames
        assert core.trace_state_clean()
        assert not jax.eval_shape(lambda: jax.numpy.asarray(core.trace_state_clean())).shape
        seen = []
        jax.jit(lambda x: (seen.append(core.trace_state_clean()), x)[1])(1.0)
        assert seen == [False]
        assert dict in tree_util._registry and int not in tree_util._registry
        assert distributed.global_state.process_id == 0 and distributed.global_state.client is None
        parts = util.partition_list([True, False], [1, 2])
        assert util.merge_lists([True, False], *parts) == [1, 2]
        assert util.split_list([1, 2, 3], [1]) == [[1], [2, 3]]
        assert util.unzip2([(1, 2), (3, 4)]) == ((1, 3), (2, 4))
        assert dtypes.supports_inf("float32") and not dtypes.supports_inf("float8_e4m3fn")
        f = lambda a, b, c=1: a
        assert infer_argnums_and_argnames(inspect.signature(f), None, ("b",)) == ((1,), ("b",))
        signature = inspect.signature(f)
        assert infer_argnums_and_argnames(signature, (0, 2), None) == ((0, 2), ("a", "c"))
        assert traceback_util.include_frame(sys._getframe())
        traceback_util.register_exclusion(__file__ if "__file__" in globals() else "<string>")
        assert not traceback_util.include_frame(sys._getframe())
    """)


def test_private_comparisons_and_shardings():
    python("""
        import jax, numpy as np, pytest
        from jax._src.dtypes import to_complex_dtype
        from jax._src.public_test_util import check_close
        from jax._src.sharding_impls import canonicalize_sharding
        from jax.sharding import NamedSharding, PartitionSpec
        check_close({"a": np.float32(1)}, {"a": 1 + 1e-7})
        check_close((1, np.nan), (np.int8(1), np.nan))
        check_close(1.0, 1.1, rtol={np.dtype("float64"): 0.2})
        for x, y in [(1.0, 1.1), (np.ones(2), np.ones((1, 2))), (np.arange(2), np.arange(1, 3))]:
            with pytest.raises(AssertionError):
                check_close(x, y)
        with pytest.raises(ValueError):
            check_close((1, 2), (1,))
        kinds = map(jax.numpy.dtype, "bool int64 bfloat16 float64 complex64".split())
        complex_of = " ".join(str(to_complex_dtype(kind)) for kind in kinds)
        assert complex_of == "complex64 complex128 complex64 complex128 complex64", complex_of
        from jax._src.lib import jaxlib_extension_version, xla_client
        assert jaxlib_extension_version > 400
        assert xla_client.XlaRuntimeError is jax.errors.JaxRuntimeError
        from jax._src.typing import SupportsDType
        assert [isinstance(x, SupportsDType) for x in (jax.numpy.ones(2), 2)] == [True, False]
        from jax._src.random import threefry2x32
        words = threefry2x32.threefry_seed(jax.numpy.asarray(3))
        key = jax.random.key(3)
        assert (words == jax.random.key_data(key)).all()
        assert (threefry2x32.threefry_random_bits(words, 32, (3,)) == jax.random.bits(key, 3)).all()
        for new, keys in [
            (threefry2x32.threefry_split(words, (2,)), jax.random.split(key)),
            (threefry2x32.threefry_fold_in(words, np.uint32(5)), jax.random.fold_in(key, 5)),
        ]:
            assert (new == jax.random.key_data(keys)).all()
        from jax._src.random.core import _check_prng_key  # kauldron
        old = jax.random.PRNGKey(3)
        assert [_check_prng_key("f", x)[1] for x in (key, old)] == [False, True]
        keys, is_words = _check_prng_key("f", jax.random.split(old), allow_batched=True)
        assert keys.shape == (2,) and is_words
        with pytest.raises(ValueError, match="f accepts a single key"):
            _check_prng_key("f", jax.random.split(key))
        assert canonicalize_sharding(None, "f") is None
        with pytest.raises(ValueError, match="f: a PartitionSpec needs a mesh in force"):
            canonicalize_sharding(PartitionSpec("x"), "f")
        mesh = jax.make_mesh((1,), ("x",))
        with jax.set_mesh(mesh):
            given = PartitionSpec("x"), NamedSharding(mesh, PartitionSpec("x"))
            both = [canonicalize_sharding(s, "f") for s in given]
        assert both == [NamedSharding(mesh.abstract_mesh, PartitionSpec("x"))] * 2
    """)


def test_private_names_of_several_processes():
    python("""
        import os
        from types import SimpleNamespace
        import pytest
        from jax._src import clusters
        from jax._src.array import local_to_global_shape
        from jax._src.sharding_impls import NonUniformShardingError, get_process_index_and_count

        # A sharding over devices; of each, its process and its parts, in quarters of the axes.
        class Blocks:
            def __init__(self, *blocks):
                self.blocks = [(SimpleNamespace(process_index=p), parts) for p, *parts in blocks]
                self.device_set = range(len(blocks))
                self.addressable_devices = [d for d, _ in self.blocks if d.process_index == 1]
            def devices_indices_map(self, shape):
                cut = lambda size, part: slice(*(size * quarter // 4 for quarter in part))
                cuts = lambda parts: tuple(map(cut, shape, parts))
                return Items((device, cuts(parts)) for device, parts in self.blocks)
        class Items(list):
            items = lambda self: self
        all_rows, left, right = (0, 4), (0, 2), (2, 4)
        parts = left, right, right, left
        columns = Blocks(*((i, all_rows, part) for i, part in enumerate(parts)))
        assert get_process_index_and_count(columns, 0, 2) == (0, 1)
        assert get_process_index_and_count(columns, 1, 2) == (1, 2)
        assert local_to_global_shape(columns, (3, 5)) == (3, 10)
        overlap = Blocks((0, (0, 2)), (0, (2, 3)), (1, (2, 3)), (1, (3, 4)))
        assert local_to_global_shape(overlap, (3,)) == (None,)
        with pytest.raises(NonUniformShardingError, match="axis 0 overlap or differ in size"):
            get_process_index_and_count(overlap, 0, 1)
        class Slurm(clusters.SlurmCluster): pass
        os.environ.pop("SLURM_JOB_ID", None)
        assert not Slurm.is_env_present()
        assert clusters.SlurmCluster in clusters.ClusterEnv._cluster_types
        with pytest.raises(RuntimeError, match="does not run on a cluster of the kind 'slurm'"):
            Slurm.get_process_id()
        os.environ.update(SLURM_JOB_ID="7", SLURM_PROCID="2", SLURM_NTASKS="4")
        os.environ.update(SLURM_LOCALID="1", SLURM_JOB_NODELIST="n[3-5]")
        assert Slurm.get_coordinator_address(3.0).startswith("n3:")
        assert Slurm.get_process_count() == 4
        assert (Slurm.get_process_id(), Slurm.get_local_process_id()) == (2, 1)
        assert Slurm.is_env_present()
    """)


def test_the_mesh_of_a_with_block_is_known():
    """As big_vision, t5x and EasyLM ask for it; `set_mesh` does not change the answer."""
    python("""
        import warnings
        import jax, numpy as np, pytest
        from jax._src.mesh import thread_resources
        with pytest.warns(DeprecationWarning, match="thread_resources is deprecated"):
            from jax.interpreters.pxla import thread_resources as public
        assert public is thread_resources
        names = lambda: thread_resources.env.physical_mesh.axis_names
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
        other = jax.make_mesh((1,), ("y",))
        seen = []
        assert names() == () and thread_resources.env.physical_mesh.empty
        with mesh:
            jax.jit(lambda x: (seen.append(names()), x)[1])(1.0)
            with jax.set_mesh(other):
                seen.append(names())
            seen.append(names())
        with jax.set_mesh(other):
            seen.append(names())
            with mesh:
                seen.append(names())
        assert seen == [("x",), ("x",), ("x",), (), ("x",)], seen
    """)


def test_the_number_of_cpu_devices_can_be_set_before_they_are_started():
    """As chex.set_n_cpu_devices does, which looks whether there is a CPU backend."""
    python(
        """
        import os
        import jax
        assert (jax._src.xla_bridge._backends or {}).get("cpu") is None
        three = " --xla_force_host_platform_device_count=3"
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + three
        assert jax.device_count("cpu") == 3
        assert jax._src.xla_bridge._backends["cpu"] is jax.devices("cpu")[0].client
    """,
        env={"JAX_NUM_CPU_DEVICES": "-1"},
    )


def test_replacing_the_compiler_forbids_a_platform():
    python("""
        import jax, jax.numpy as jnp
        from jax._src import compiler
        inner = compiler.backend_compile_and_load
        def refuse(backend, *args, **kwargs):
            assert backend.platform == "cpu"
            raise RuntimeError("forbidden")
        compiler.backend_compile_and_load = refuse
        try:
            jax.jit(lambda x: x * 3.25)(1.0)
        except RuntimeError as err:
            assert "forbidden" in str(err)
        else:
            raise AssertionError
        compiler.backend_compile_and_load = inner
        assert jax.jit(lambda x: x * 3.25)(1.0) == 3.25
    """)


def test_it_is_installed_once_and_costs_little():
    python("""
        import sys, time, teucer, importlib
        before = list(sys.meta_path)
        teucer.compat.install()
        assert sys.meta_path == before
    """)


def test_real_jax_is_an_error(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("REAL = True\n")
    there = {"PYTHONPATH": str(tmp_path)}
    found = python("import jax\nimport teucer.compat", before="", env=there, check=False)
    assert "cannot be imported into a process that has imported jax" in found
    assert "begin the program with `import teucer.compat`" in found and "compat check" in found
    python(
        "import jax\nassert not hasattr(jax, 'REAL')", env=there
    )  # one that is only installed stands behind


CHILDREN = """
import importlib.metadata, multiprocessing, subprocess, sys
import jax

def child(queue):
    import jax
    queue.put(jax.__file__)

if __name__ == "__main__":
    assert jax.__version__ == importlib.metadata.version("jax") and sys.argv[1:] == ["--flag", "7"]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=100) == jax.__file__
    process.join()
    source = "import sys; assert 'teucer' not in sys.modules; import jax; print(jax.numpy.__name__)"
    command = [sys.executable, "-c", source]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
"""


def test_run_gives_the_alias_to_the_program_and_its_children(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CHILDREN)
    assert python(None, "-m", "teucer", "run", str(program), "--flag", "7").split() == ["jax.numpy"]


def test_the_command_is_no_place_of_a_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""import jax, jax.numpy as jnp
def f(x):
    return jnp.log(-x)
print(jax.jit(f).lower(1.0).as_text(debug_info=True))
jax.config.update("jax_debug_nans", True)
try:
    f(5.0)
except FloatingPointError as err:
    print(err)
""")
    command = os.path.join(os.path.dirname(sys.executable), "teucer")
    out = python(None, command, "run", str(program))
    assert "called from" in out and "jit(f)/log" in out
    assert "runpy" not in out and command not in out


def test_run_a_module(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import jax\ndef test(): assert jax.numpy.ones(2).sum() == 2\n"
    )
    found = python(
        None,
        "-m",
        "teucer",
        "run",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "1",
        str(tmp_path),
    )
    assert "1 passed" in found
    assert "there is no module nowhere" in python(
        None, "-m", "teucer", "run", "-m", "nowhere", check=False
    )
    assert "name a Python file" in python(None, "-m", "teucer", "run", check=False)


def test_startup_runs_the_next_sitecustomize(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.was_here = True\n")
    startup = ROOT / "teucer" / "compat" / "_startup"
    env = {"PYTHONPATH": os.pathsep.join([str(startup), str(tmp_path)])}
    python("import sys, jax\nassert sys.was_here and jax.numpy", before="", env=env)


def test_the_wheel(tmp_path):
    path = Path(
        python(
            None, "-m", "teucer", "compat", "wheel", "--output", str(tmp_path / "wheels")
        ).strip()
    )
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        wheel.extractall(tmp_path / "site")
    assert not [name for name in names if name.startswith("jax/")] and "teucer_as_jax.pth" in names
    again = Path(
        python(None, "-m", "teucer", "compat", "wheel", "--output", str(tmp_path / "again")).strip()
    )
    release = importlib.metadata.version("jaxlib")
    assert path.name == f"jax-{release}-py3-none-any.whl"
    assert path.read_bytes() == again.read_bytes()
    # What installing it does: a folder of packages with a .pth, which is read as Python starts.
    python(
        f"""
        import site, sys, importlib.metadata
        site.addsitedir({str(tmp_path / "site")!r})
        assert "teucer" not in sys.modules
        import jax, jax.numpy as jnp
        assert jax.__version__ == importlib.metadata.version("jax") == {release!r}
        assert "jaxlib=={release}" in importlib.metadata.requires("jax")
        assert jnp.ones(2).sum() == 2
        assert "cuda12" in importlib.metadata.metadata("jax").get_all("Provides-Extra")
    """,
        before="",
    )


def test_whether_the_environment_still_has_the_wheel_can_be_asked(tmp_path):
    def check(*folders, works):
        there = {"PYTHONPATH": os.pathsep.join(map(str, folders))}
        return python(None, "-m", "teucer", "compat", "check", env=there, check=works)

    wheel = python(None, "-m", "teucer", "compat", "wheel", "--output", str(tmp_path / "w")).strip()
    constraints = (tmp_path / "w" / "constraints.txt").read_text()
    assert constraints == f"jax @ {Path(wheel).as_uri()}\n"
    assert "there is no jax" in check(works=False)
    with zipfile.ZipFile(wheel) as files:
        files.extractall(tmp_path / "site")
    # A .pth is read in a folder of packages only.
    (tmp_path / "site" / "sitecustomize.py").write_text("import teucer_as_jax\n")
    assert "gives Teucer" in check(tmp_path / "site", works=True)
    [info] = (tmp_path / "site").glob("jax-*.dist-info")
    text = (info / "METADATA").read_text()
    (info / "METADATA").write_text(text.replace("\nVersion: ", "\nVersion: 0.9."))
    said = check(tmp_path / "site", works=False)
    assert "the wheel says jax 0.9." in said and "teucer compat wheel" in said
    (info / "METADATA").write_text(text)

    real = tmp_path / "real"
    (real / "jax").mkdir(parents=True)
    (real / "jax" / "__init__.py").write_text("raise AssertionError('it was imported')\n")
    info = real / "jax-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 9.9.9\n")
    (info / "RECORD").write_text("jax/__init__.py,,\n")
    said = check(real, works=False)
    assert "gives JAX, not Teucer: jax 9.9.9" in said and "--force-reinstall" in said
    assert "constraints.txt" in said
    said = check(tmp_path / "site", real, works=False)
    assert "gives Teucer, and jax 9.9.9 in" in said and "pip uninstall jax" in said


@pytest.mark.slow
def test_importing_through_the_alias_costs_little():
    # Processor time of one process, since other processes of the machine would count as well.
    source = """
        import time
        import teucer
        start = time.process_time()
        import teucer.compat
        import jax
        print(time.process_time() - start)
    """
    # The classes of 200 modules are renamed, which takes a third of it.
    assert min(float(python(source, before="")) for _ in range(7)) < 0.008


def test_modules_are_there_without_being_imported():
    python("""
        import jax
        for name in ("ref", "experimental.multihost_utils", "experimental.compilation_cache",
                     "nn.initializers", "scipy.special", "tree_util", "numpy.linalg"):
            place = jax
            for part in name.split("."):
                place = getattr(place, part)
        assert jax.ref.get is jax.ref.get and "io_callback" in dir(jax.experimental)
    """)


def test_private_modules_that_the_documentation_uses():
    python("""
        import jax
        from jax._src import config, test_util
        from jax._src.lib import version, xla_client
        from jax._src.lib.mlir import ir
        from jax._src.lib.mlir.dialects import hlo
        from jax._src.interpreters import mlir
        assert config.config is jax.config and xla_client.OpSharding and version >= (0, 10)
        with config.enable_x64(True):
            assert config.enable_x64.value and jax.numpy.ones(1).dtype == "float64"
        with config.jax_export_calling_convention_version(10):
            assert jax.config.jax_export_calling_convention_version == 10
        assert hlo.AddOp and ir.Module and mlir.custom_call
        mesh = test_util.create_mesh((1, 1), ("x", "y"), iota_order=True)
        assert mesh == test_util.create_mesh((1, 1), ("x", "y"))
        assert mesh.axis_types == (jax.sharding.AxisType.Auto,) * 2
    """)
