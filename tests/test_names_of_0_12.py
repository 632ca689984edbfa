"""Names and parameters that JAX 0.12 added: given, or refused with a reason."""

import enum
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._devices.specs import AS_IN_0_12
from teucer._jax import refused
from teucer.sharding import ManualAxisType, PartitionSpec, UnreducedKind

REFUSED_ON_USE = {
    "experimental.fused": "fused",
    "experimental.layout": "explicit_layout",
    "experimental.transfer": "TransferServer make_error_array start_transfer_server",
    "extend.pallas": "GridMapping register_lowering_rule",
}
# What JAX's modules import of Python, or of helpers that are private in JAX, and show.
_PYTHONS = (
    "Any Array Callable DTypeLike Future Hashable Iterable Iterator ModuleType NamedTuple Protocol "
    "Sequence Shape TYPE_CHECKING TypeVar annotations api_boundary cast dataclass "
    "jax_register_backend_cache logger lru_cache map namedtuple np operator overload partial "
    "register_cache safe_map safe_zip split_list unzip2 wraps zip"
)
PYTHONS = _PYTHONS.split()


def inventory():
    """The names of JAX 0.12.0.1 by module, each with the names of its parameters, as an
    introspection gave them."""
    modules, module = {}, ""
    for line in (Path(__file__).parent / "data" / "names_0_12.txt").read_text().splitlines():
        if line.startswith(" "):
            name, _, parameters = line.strip().rstrip(")").partition("(")
            modules[module][name] = parameters.split(", ") if parameters else []
        else:
            module = line
            modules[module] = {}
    return modules


INVENTORY = inventory()


def refused_names():
    for module, reasons in [*refused.REFUSED.items(), *refused.IMPORTED.items()]:
        for names in reasons.values():
            for name in names.split():
                yield module, name


@pytest.mark.parametrize("module", REFUSED_ON_USE)
def test_refused_when_they_are_used(module):
    place = importlib.import_module(f"teucer.{module}")
    for name in REFUSED_ON_USE[module].split():
        assert name in dir(place)
        with pytest.raises(NotImplementedError, match=rf"jax\.{module}\.{name}: .*(not|no) "):
            getattr(place, name)(1, option=2)


def test_every_name_is_given_or_refused():
    lacking = []
    there = set(refused_names())
    for module in INVENTORY:
        place = importlib.import_module("teucer" + module.removeprefix("jax"))
        lacking += [
            f"{module}.{name}"
            for name in INVENTORY[module]
            if name not in PYTHONS
            and not hasattr(place, name)
            and (module.partition(".")[2], name) not in there
        ]
    assert lacking == []


def test_refused_by_name():
    """Each name of the table is JAX's, is not here, and says why and what to use instead."""
    wrong = []
    for module, name in refused_names():
        place = importlib.import_module(f"teucer.{module}")
        if name not in INVENTORY[f"jax.{module}"] or getattr(place, name, None) is not None:
            wrong.append((module, name))
            continue
        with pytest.raises(AttributeError) as raised:
            getattr(place, name)
        said = rf"no attribute '{name}', which JAX has: \w.*\.\n  (Use|Read|Pass|Define) "
        if not re.search(said, str(raised.value)) or raised.value.name != name:
            wrong.append(str(raised.value))
    assert wrong == []


# Parameters of constructors and others that are not as in JAX, each with the reason.
OTHER_PARAMETERS = {
    **dict.fromkeys(
        ["jax.Ref", "jax.ref.Ref", "jax.ref.AbstractRef", "jax.experimental.hijax.AbstractRef"],
        "new_ref makes references and their types; a type may be given by position",
    ),
    **dict.fromkeys(
        ["jax.stages.Compiled", "jax.stages.Lowered", "jax.stages.Traced", "jax.Shard"],
        "made by jit and by arrays, not by users",
    ),
    **dict.fromkeys(
        [
            "jax.experimental.jet.JetTrace",
            "jax.interpreters.ad.JVPTrace",
            "jax.interpreters.partial_eval.DynamicJaxprTracer",
            "jax.interpreters.partial_eval.JaxprTracer",
            "jax.interpreters.mlir.ModuleContext",
        ],
        "made by transformations and by lowering, not by users",
    ),
    "jax.interpreters.partial_eval.PartialVal": "a tuple, whose argument has no name",
    "jax.interpreters.partial_eval.dce_jaxpr": "live_inputs: nothing says what it does",
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel."
    "SplashAttentionKernel": "made by make_splash_mha; it has no tables of masks",
    "jax.experimental.pallas.mosaic_gpu.BlockSpec": "Mosaic GPU is not built",
    "jax.experimental.pallas.mosaic_gpu.CompilerParams": "Mosaic GPU is not built",
}


def test_every_parameter_is_taken():
    """Each function takes the parameters that JAX's takes, by name."""
    lacking = {}
    for module, names in INVENTORY.items():
        place = importlib.import_module("teucer" + module.removeprefix("jax"))
        for name, wanted in names.items():
            value = getattr(place, name, None)
            if not wanted or not callable(value) or name.endswith("_p"):
                continue
            try:
                taken = inspect.signature(value).parameters
            except (TypeError, ValueError):  # C++ does not say
                continue
            if any(p.kind.name.startswith("VAR") for p in taken.values()):
                continue
            lost = [p for p in wanted if not p.startswith("_") and p not in taken]
            if lost:
                lacking[f"{module}.{name}"] = lost
    assert lacking.keys() == OTHER_PARAMETERS.keys()


def test_names_that_nobody_has():
    for place in (jax, jax.lax, jax.core, importlib.import_module("teucer.experimental.jet")):
        with pytest.raises(AttributeError, match=r"has no attribute 'sinn'(\n|$)"):
            place.sinn  # noqa: B018  # it raises
    with pytest.raises(AttributeError, match="'tree_map': use jax.tree.map"):
        jax.tree_map  # noqa: B018  # it raises


def test_the_table_is_loaded_for_a_name_that_is_missed():
    program = (
        "import sys, teucer, teucer.lax, teucer.experimental.jet as jet\n"
        "assert 'teucer._jax.refused' not in sys.modules\n"
        "assert getattr(jet, 'jet_fun', 3) == 3 and not hasattr(teucer.lax, 'stage_p')\n"
        "assert 'teucer._jax.refused' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("accuracy", [None, *lax.AccuracyMode, lax.Tolerance(1e-3, 0, 0)])
def test_erfc_accuracy(accuracy):
    """JAX 0.12.0.1 gives 0.47950017 by default and 0.47950011 with HIGHEST; it is 0.47950012."""
    assert abs(float(lax.erfc(0.5, accuracy=accuracy)) - 0.4795001221869535) < 5 * 2**-25  # 5 ulp
    slope = jax.grad(lambda x: lax.erfc(x, accuracy=accuracy))(0.5)
    assert abs(float(slope) + 0.8787825789354449) < 1e-6


def test_erfc_refuses_other_accuracies():
    with pytest.raises(TypeError, match="AccuracyMode"):
        jax.jit(lambda x: lax.erfc(x, accuracy="high"))(jnp.ones(2))


def test_unreduced_kind_of_manual_types():
    """As JAX 0.12.0.1; max and min need jaxlib 0.12."""
    summed = ManualAxisType(unreduced={"x"})
    assert summed.unreduced_kind is UnreducedKind.sum
    assert ManualAxisType(unreduced={"x"}, unreduced_kind=UnreducedKind.sum) is summed
    assert ManualAxisType(varying={"x"}).unreduced_kind is None
    assert pickle.loads(pickle.dumps(summed)) is summed
    for make in (ManualAxisType, PartitionSpec):
        with pytest.raises(ValueError, match="`unreduced_kind` should be `None`"):
            make(unreduced_kind=UnreducedKind.sum)
        with pytest.raises(TypeError, match="Expected unreduced_kind to be of type"):
            make(unreduced={"x"}, unreduced_kind="max")
        if AS_IN_0_12:
            assert make(unreduced={"x"}, unreduced_kind=UnreducedKind.max) != make(unreduced={"x"})
        else:
            with pytest.raises(NotImplementedError, match="combined by max need jaxlib 0.12"):
                make(unreduced={"x"}, unreduced_kind=UnreducedKind.max)


@pytest.mark.parametrize("name", ["mtls_cert_file", "mtls_ca_file", "verify_secure_credentials"])
def test_encrypted_connections_are_refused(name):
    with pytest.raises(NotImplementedError, match=f"not encrypted, so {name} would"):
        jax.distributed.initialize("localhost:1", 1, 0, **{name: True})
    assert not jax.distributed.is_initialized()


def test_profiled_instructions(tmp_path):
    from teucer.experimental.profiler import get_profiled_instructions_proto

    with jax.profiler.trace(tmp_path):
        jnp.ones(3).block_until_ready()
    assert get_profiled_instructions_proto(str(tmp_path)) == b""  # of CPUs, as in JAX
    with pytest.raises(FileNotFoundError, match="no folder"):
        get_profiled_instructions_proto(str(tmp_path / "none"))


def test_device_put_p():
    jaxpr = jax.make_jaxpr(lambda x: jax.device_put(x, jax.devices()[0]))(1.0)
    assert jaxpr.eqns[0].primitive is lax.device_put_p


def test_computable_masks():
    """AXLearn's masks are subclasses of a private class."""
    from teucer.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as k
    from teucer.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    class Every(masks._ComputableMask):
        def __init__(self, shape, n):
            self.n = n
            super().__init__(shape, lambda q, kv: (q - kv) % n == 0, shard_count=1)

        def __eq__(self, other):
            return isinstance(other, Every) and self.n == other.n

        def __hash__(self):
            return hash((type(self), self.n))

    mask = Every((4, 6), 2)
    want = (np.arange(4)[:, None] - np.arange(6)) % 2 == 0
    np.testing.assert_array_equal(mask[1:3, :], want[1:3])
    assert mask.shape == (4, 6)
    assert mask == Every((4, 6), 2)
    rng = np.random.default_rng(0)
    q, key, v = (rng.normal(size=(1, n, 8)).astype("float32") for n in (4, 6, 6))
    attend = k.make_splash_mha(masks.MultiHeadMask([mask]), head_shards=1, q_seq_shards=1)
    other = k.make_splash_mha(
        masks.MultiHeadMask([masks.NumpyMask(want)]), head_shards=1, q_seq_shards=1
    )
    np.testing.assert_allclose(attend(q, key, v), other(q, key, v), rtol=1e-6)
    assert k.MaskFunctionType


def test_precisions_by_their_words():
    """As JAX 0.12.0.1; MaxText gives members of an enumeration of words."""

    class Word(enum.StrEnum):
        FAST = "fastest"

    for word, expected in [
        ("float32", lax.Precision.HIGHEST),
        ("tensorfloat32", lax.Precision.HIGH),
        (Word.FAST, lax.Precision.DEFAULT),
        (None, lax.Precision.DEFAULT),
        (2, lax.Precision.HIGHEST),
    ]:
        assert lax.Precision(word) is expected
    for wrong in ("HIGHEST", 3, ()):
        with pytest.raises(ValueError, match="is not a valid Precision"):
            lax.Precision(wrong)


@pytest.mark.parametrize("axes", [np.array([0]), np.int64(0), (0,), [0], range(1)])
def test_axes_of_initializers(axes):
    """MaxText gives an array of NumPy."""
    make = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", axes, -1)
    expected = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", 0, -1)
    key = jax.random.key(0)
    np.testing.assert_array_equal(make(key, (4, 3)), expected(key, (4, 3)))


def test_attributes_of_meshes_and_traced_functions():
    explicit = jax.sharding.AxisType.Explicit
    for kinds, want in [("Explicit", True), ("Manual", True), ("Auto", False)]:
        mesh = jax.sharding.AbstractMesh(
            (1, 1), ("a", "b"), (explicit, getattr(jax.sharding.AxisType, kinds))
        )
        assert mesh.are_all_axes_explicit_or_manual is want
    assert jax.jit(jnp.sin).trace(1.0).effects == frozenset()
    assert jax.jit(lambda x: jax.debug.print("{}", x)).trace(1.0).effects
