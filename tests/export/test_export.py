"""Exported functions.

Calling them at other sizes and after a round trip through bytes, derivatives, platforms,
refusals.
"""

import collections
import copy
import dataclasses
import functools
import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer._core.primitive import Primitive
from teucer._lower import hlo
from teucer._xla import mlir

A, B = export.symbolic_shape("a, b")


def struct(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def sample(shape, sizes, seed):
    known = {"a": sizes[0], "b": sizes[1]}
    shape = [eval(str(n).replace("^", "**"), {**known}) for n in shape]
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def conv(x):
    return lax.conv_general_dilated(x, jnp.ones((4, 3, 3, 3)), (2, 2), "SAME")


def systems(x):
    x = x + 9 * jnp.eye(x.shape[1])
    return (
        jnp.linalg.inv(x),
        jnp.linalg.solve(x, x[..., :1]),
        tuple(jnp.linalg.slogdet(x)),
        jnp.linalg.det(x / 9),
        jax.scipy.linalg.lu_factor(x),
    )


# Functions with the symbolic shapes of their arguments: between them every operation that has a
# dynamic form.
PROGRAMS = {
    "elementwise": (lambda x: jnp.sin(x) * 2 + x**2, [(A, B)]),
    "reshape": (lambda x: x.reshape(-1), [(A, B)]),
    "split reshape": (lambda x: x.reshape(-1, 2), [(2 * A,)]),
    "step": (lambda x: x[::2], [(A,)]),
    "back": (lambda x: x[::-1], [(A,)]),
    "front": (lambda x: x[:5], [(A,)]),
    "rest": (lambda x: x[2:], [(A,)]),
    "end": (lambda x: x[-3:], [(A,)]),
    "element": (lambda x: x[5] + x[-1], [(A,)]),
    "places": (lambda x: x[jnp.array([0, 1])], [(A,)]),
    "update": (lambda x: x.at[0].set(1.0).at[1:].add(2.0), [(A,)]),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), [(A,), (B,)]),
    "matmul": (lambda x: x @ x.T, [(A, B)]),
    "softmax": (lambda x: jax.nn.softmax(x), [(A, B)]),
    "iota": (lambda x: jnp.arange(1, x.shape[0], 2) + x.shape[0], [(A,)]),
    "eye": (lambda x: jnp.eye(x.shape[0]) + x, [(A, A)]),
    "mean": (lambda x: (x.mean(), x.var(axis=0), x.sum() / x.shape[0]), [(A, B)]),
    "sort": (lambda x: jnp.sort(x), [(A, B)]),
    "argmax": (lambda x: x.argmax(), [(A,)]),
    "median": (lambda x: jnp.median(x), [(A,)]),
    "cumsum": (lambda x: jnp.cumsum(x), [(A,)]),
    "top_k": (lambda x: lax.top_k(x, x.shape[0] - 1), [(A,)]),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (x.shape[0], 0))), [(A, B)]),
    "tile": (lambda x: jnp.tile(x, (x.shape[0], 1)), [(A,)]),
    "roll": (lambda x: jnp.roll(x, 1), [(A,)]),
    "tril": (jnp.tril, [(A, A)]),
    "windows": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "SAME"), [(A,)]),
    "conv": (conv, [(A, 3, B, B)]),
    "window of any size": (lambda x: lax.dynamic_slice(x, (1,), (x.shape[0] // 2,)), [(A,)]),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.mT + jnp.eye(x.shape[1])), [(A, B, B)]),
    "inv": (lambda x: jnp.linalg.inv(x + 9 * jnp.eye(3)), [(A, 3, 3)]),
    "systems": (systems, [(A, B, B)]),
    "eigvalsh": (lambda x: jnp.linalg.eigvalsh(x + x.mT), [(A, B, B)]),
    "normal": (lambda x: jax.random.normal(jax.random.key(0), x.shape), [(A, B)]),
    "nonzero": (lambda x: jnp.nonzero(x, size=3)[0], [(A,)]),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, x), [(A,)]),
    "scan back": (lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, x, reverse=True), [(A,)]),
    "scan nothing": (lambda x: lax.scan(lambda c, _: (c + 1, c), 0.0, length=x.shape[0]), [(A,)]),
    "loop": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0), [(A,)]),
    "while": (
        lambda x: lax.while_loop(
            lambda c: c[0] < x.shape[0], lambda c: (c[0] + 1, c[1] * 2), (0, x)
        ),
        [(A,)],
    ),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda x: x + 1, lambda x: x[::-1], x), [(A,)]),
    "vmap": (lambda x: jax.vmap(lambda row: row @ row + row.shape[0])(x), [(A, B)]),
    "grad": (jax.grad(lambda x: (jnp.cumsum(x)[1:] ** 2).mean()), [(A,)]),
    "call": (
        lambda x: jax.jit(lambda y: y * y.shape[0])(jax.jit(lambda y: y * y.shape[0])(x)),
        [(A,)],
    ),
    "erf_inv": (lambda x: jax.scipy.special.erfinv(jnp.tanh(x)), [(A,)]),
    "integers": (lambda x: x.shape[0] // 2 * 3 % x.shape[1], [(A, B)]),
    "fft": (lambda x: jnp.fft.fft(x), [(A, 8)]),
    "constant": (lambda x: x + np.arange(4.0), [(A, 4)]),
    "segments": (
        lambda x: [
            jax.ops.segment_sum(
                x, jnp.arange(x.shape[0]) // 2, num_segments=x.shape[0], mode=mode, bucket_size=n
            )
            for mode, n in ((None, None), ("clip", 2))
        ],
        [(A, B)],
    ),
    "bincount": (
        lambda x: jnp.bincount(jnp.abs(x).astype(int), x, length=x.shape[0], minlength=2),
        [(A,)],
    ),
    "linspace": (
        lambda x: (
            jnp.linspace(0, 1, x.shape[0] + 1),
            jnp.linspace(x, 2, x.shape[0] + 2, False, axis=1),
        ),
        [(A,)],
    ),
    "split": (lambda x: jnp.split(x, [x.shape[0] - 1]), [(A,)]),
    "gradient": (lambda x: jnp.gradient(x, 2.0), [(A + 2,)]),
    "triangles": (
        lambda x: (
            jnp.tril_indices_from(x),
            jnp.triu_indices(x.shape[0]),
            jnp.diag_indices_from(x),
        ),
        [(A, A)],
    ),
    "resize": (lambda x: jax.image.resize(x, (2 * x.shape[0], 3), "nearest"), [(A, B)]),
    "toeplitz": (
        lambda x, y: (jax.scipy.linalg.toeplitz(x, y), jax.scipy.linalg.hankel(x, y)),
        [(A,), (B,)],
    ),
    "initializer": (
        lambda x: [
            jax.nn.initializers.variance_scaling(2.0, mode, "normal")(
                jax.random.key(0), (2, *x.shape)
            )
            for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
        ],
        [(A, B)],
    ),
    "grad of diagonal": (jax.grad(lambda x: (jnp.diagonal(x) ** 2).sum()), [(A, A)]),
    "repeat": (lambda x: jnp.repeat(x, 3), [(A,)]),
    "complex": (lambda x: jnp.abs(jnp.exp(1j * x)), [(A,)]),
}
SIZES = [(1, 1), (4, 3), (7, 9)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_known_sizes(name):
    f, shapes = PROGRAMS[name]
    exported = export.export(jax.jit(f))(*(struct(*shape) for shape in shapes))
    for sizes in SIZES:
        args = [sample(shape, sizes, i) for i, shape in enumerate(shapes)]
        got, expected = jax.tree.leaves(exported.call(*args)), jax.tree.leaves(jax.jit(f)(*args))
        for x, y in zip(got, expected, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5)


Pair = collections.namedtuple("Pair", "x y")
export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Point:
    x: object
    y: object


def through_bytes(exported, vjp_order=0):
    return export.deserialize(exported.serialize(vjp_order=vjp_order))


def test_round_trip():
    @jax.jit
    def f(pair, tree, *, k):
        return {
            "out": pair.x * k + tree["w"][0],
            "rest": [None, (pair.y,)],
            "o": collections.OrderedDict(z=pair.y, a=1),
        }

    args = (Pair(struct(A, 2 * B), struct(dtype=np.int32)), {"w": (struct(2 * B), None)})
    exported = export.export(f, platforms=["cpu", "tpu"])(*args, k=struct())
    read = through_bytes(exported)
    for name in (
        "fun_name",
        "in_tree",
        "out_tree",
        "platforms",
        "nr_devices",
        "disabled_safety_checks",
        "module_kept_var_idx",
        "uses_global_constants",
        "calling_convention_version",
        "mlir_module_serialized",
    ):
        assert getattr(read, name) == getattr(exported, name)
    assert str(read.in_avals) == str(exported.in_avals) and str(read.out_avals) == str(
        exported.out_avals
    )
    values = (
        Pair(np.ones((3, 4), np.float32), np.int32(2)),
        {"w": (np.arange(4, dtype=np.float32), None)},
    )
    got, expected = read.call(*values, k=np.float32(2)), f(*values, k=np.float32(2))
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
    assert str(read) == "Exported(fun_name=f, ...)" and not read.has_vjp()


def test_round_trip_keeps_constraints():
    a, b = export.symbolic_shape("a, b", constraints=["a >= b", "mod(b, 2) == 0"])
    read = through_bytes(export.export(jax.jit(lambda x: x[:, ::2]))(struct(a, b)))
    x, y = read.in_avals[0].shape
    assert x >= y and y % 2 == 0
    with pytest.raises(
        ValueError, match=r"symbolic shape constraint a >= b. Expected '- b \+ a'.* but found -1"
    ):
        read.call(np.ones((3, 4), np.float32))


def test_in_another_process(tmp_path):
    (tmp_path / "f.bin").write_bytes(
        export.export(jax.jit(lambda x: jnp.cumsum(x) * 2))(struct(A)).serialize()
    )
    program = (
        "import sys, numpy as np; from teucer import export; "
        "print(export.deserialize(open(sys.argv[1], 'rb').read()).call(np.ones(3, np.float32)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "f.bin")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[2. 4. 6.]"


def test_keys_go_through_bytes():
    read = through_bytes(
        export.export(jax.jit(lambda key: jax.random.split(key)))(jax.random.key(0))
    )
    assert (
        jax.random.key_data(read.call(jax.random.key(3)))
        == jax.random.key_data(jax.random.split(jax.random.key(3)))
    ).all()


def test_trees_of_classes_not_registered():
    exported = export.export(jax.jit(lambda p: p.x))(Point(1.0, 2.0))
    with pytest.raises(
        ValueError, match="Cannot serialize PyTreeDef(?s:.*)register_pytree_node_serialization"
    ):
        exported.serialize()
    with pytest.raises(ValueError, match="Duplicate serialization registration"):
        export.register_namedtuple_serialization(Pair, serialized_name="other")
    with pytest.raises(TypeError, match="only for dictionaries with string keys. Found key 1"):
        export.export(jax.jit(lambda d: d))({1: 2.0}).serialize()
    with pytest.raises(
        ValueError, match="If `from_children` is not present, you must call first(?s:.*)str"
    ):
        export.register_pytree_node_serialization(
            str, serialized_name="s", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
        )


def test_registered_nodes_go_through_bytes():
    class Box:
        def __init__(self, inside, label):
            self.inside, self.label = inside, label

    jax.tree_util.register_pytree_node(
        Box, lambda b: ((b.inside,), b.label), lambda label, children: Box(children[0], label)
    )
    export.register_pytree_node_serialization(
        Box,
        serialized_name="tests.Box",
        serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode,
    )
    read = through_bytes(
        export.export(jax.jit(lambda b: Box(b.inside * 2, b.label)))(Box(3.0, "named"))
    )
    assert read.call(Box(4.0, "named")).label == "named"


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.integers(0, 255), st.sampled_from(["change", "cut", "add"]))
def test_damage_is_refused(place, byte, kind):
    data = bytearray(_SERIALIZED)
    at = place % len(data)
    if kind == "change":
        data[at] ^= byte
    elif kind == "cut":
        del data[at:]
    else:
        data.insert(at, byte)
    if data == _SERIALIZED:
        return
    with pytest.raises(ValueError, match="deserialize: the"):
        export.deserialize(data)


_SERIALIZED = bytes(export.export(jax.jit(jnp.sin))(struct(A)).serialize(vjp_order=1))


def test_other_versions_are_refused():
    later = bytearray(_SERIALIZED)
    later[16] += 1
    with pytest.raises(ValueError, match="version 2 of the format; this version of teucer reads 1"):
        export.deserialize(later)


def test_derivatives():
    def f(x, n):
        return (jnp.sin(x) * n).sum()

    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    exported = export.export(jax.jit(f))(struct(A, B), struct(dtype=np.int32))
    read = through_bytes(exported, vjp_order=2)
    for each in (exported, read):
        np.testing.assert_allclose(jax.grad(each.call)(x, np.int32(3)), 3 * np.cos(x), rtol=1e-6)
        second = jax.grad(lambda x, e=each: jax.grad(e.call)(x, np.int32(3)).sum())(x)
        np.testing.assert_allclose(second, -3 * np.sin(x), rtol=1e-6)
    assert read.vjp().vjp().fun_name and not read.vjp().vjp().has_vjp()
    assert (
        str(exported.vjp().in_avals)
        == "(ShapedArray(float32[a,b]), ShapedArray(int32[]), ShapedArray(float32[]))"
    )
    assert str(exported.vjp().out_avals) == "(ShapedArray(float32[a,b]), ShapedArray(float0[]))"
    with pytest.raises(ValueError, match="No VJP is available"):
        jax.grad(through_bytes(exported).call)(x, np.int32(3))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: exported.call(x, np.int32(3)), (x,), (x,))


def test_integer_results_have_no_cotangents():
    exported = export.export(jax.jit(lambda x, n: (x * n.sum(), n)))(
        struct(A), struct(B, dtype=np.int32)
    )
    got = jax.grad(lambda x: exported.call(x, np.int32([1, 2]))[0].sum())(np.ones(3, np.float32))
    assert got.tolist() == [3, 3, 3]


def test_under_jit_and_other_symbolic_shapes():
    exported = export.export(jax.jit(lambda x, y: x[: y.shape[0]] + y))(struct(A + B), struct(B))
    x, y = np.arange(5, dtype=np.float32), np.ones(2, np.float32)
    assert jax.jit(lambda x, y: exported.call(x, y) * 2)(x, y).tolist() == [2, 4]
    assert "call_exported" in str(jax.make_jaxpr(exported.call)(x, y))
    c, d = export.symbolic_shape("c, d")
    outer = export.export(
        jax.jit(lambda x, y: exported.call(x, y) - exported.call(x[:-1], y[:-1]).sum())
    )(struct(c + d + 2), struct(d + 1))
    assert str(outer.out_avals) == "(ShapedArray(float32[d + 1]),)"
    assert outer.call(x, y).tolist() == [0, 1]
    with pytest.raises(
        NotImplementedError, match="Batching.*call_exported(?s:.*)Export the mapped function"
    ):
        jax.vmap(exported.call)(np.ones((2, 5), np.float32), np.ones((2, 2), np.float32))


D, E = export.symbolic_shape("d, e", constraints=["mod(d, 2) == 0"])


def halves(x):
    return x[: x.shape[0] // 2], x[x.shape[0] // 2 :]  # of sizes that are equal and look different


@pytest.mark.parametrize(
    "f",
    [
        lambda x: sum(halves(x)),
        lambda x: jax.vmap(lambda a, b: a + b[0])(*halves(x)),
        lambda x: lax.clamp(0.0, *halves(x)),
        lambda x: lax.scan(lambda c, ab: (c + ab[0][0], ab[1]), 0.0, halves(x)),
        lambda x: lax.map(lambda ab: ab[0] * ab[1], halves(x)),
        lambda x: jnp.lexsort([h[:, 0] for h in halves(x)]),
        lambda x: x.reshape(2, x.shape[0] // 2, x.shape[1]),
        lambda x: x.T.reshape(x.shape[1], x.shape[0] // 2, 2),
    ],
    ids=["add", "vmap", "clamp", "scan", "map", "lexsort", "reshape", "reshape with another size"],
)
def test_sizes_that_are_equal_by_divisibility(f):
    x = sample((4, 3), (0, 0), 0)
    exported = export.export(jax.jit(f))(struct(D, E))
    for got, want in zip(jax.tree.leaves(exported.call(x)), jax.tree.leaves(f(x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    with pytest.raises(ValueError, match="mod"):
        exported.call(x[:3])


def test_sizes_of_another_program_have_to_be_known_to_fit():
    even = export.export(jax.jit(lambda x: x.sum()))(struct(2 * A))
    assert "Division had remainder" in even.mlir_module()  # for who calls the module elsewhere
    b, c = export.symbolic_shape("b, c", constraints=["b >= c"])
    longer = export.export(jax.jit(lambda x, y: x[: y.shape[0]] + y))(struct(b), struct(c))
    p, q = export.symbolic_shape("p, q")
    for f, shapes, text in [
        (
            even.call,
            [(p,)],
            r"(?s)Division had remainder mod\(p, 2\) when computing .* for some sizes only",
        ),
        (longer.call, [(p,), (q,)], "constraint b >= c. Expected '- c \\+ b' to be greater"),
        (
            lambda x, y: longer.call(x, y[1:]),
            [(p,), (p,)],
            "Expected value >= 1 for dimension variable 'c'",
        ),
    ]:
        with pytest.raises(ValueError, match=text):
            export.export(jax.jit(f))(*[struct(*shape) for shape in shapes])
    p, q = export.symbolic_shape("p, q", constraints=["mod(p, 2) == 0", "q >= p + 3"])
    outer = export.export(jax.jit(lambda x, y: (even.call(x), longer.call(y[3:], x))))(
        struct(p), struct(q)
    )
    assert [y.sum() for y in outer.call(np.ones(4, np.float32), np.ones(7, np.float32))] == [4, 8]


CALLS = {
    ((0,), (1,)): "Expected value >= 1 for dimension variable 'a'",
    ((2, 2), (1,)): r"Rank mismatch for args\[0\]: expected \(a,\)",
    (
        (3,),
        (4,),
    ): (
        r"Found inconsistency between dimension size args\[1\].shape\[0\] \(= 4\) and the "
        r"specification '2\*a' \(= 6\)"
    ),
}


@pytest.mark.parametrize(("shapes", "text"), CALLS.items())
def test_shapes_that_do_not_fit(shapes, text):
    exported = export.export(jax.jit(lambda x, y: (x, y)))(struct(A), struct(2 * A))
    with pytest.raises(ValueError, match=text):
        exported.call(*(np.ones(shape, np.float32) for shape in shapes))


def test_calls_that_do_not_fit():
    exported = export.export(jax.jit(lambda x: x["u"]))({"u": struct(2, 3)})
    for args, text in [
        (
            ({"v": np.ones((2, 3), np.float32)},),
            "must have the same pytree structure as when the function",
        ),
        (({"u": np.ones((2, 4), np.float32)},), r"Shape mismatch for args\[0\]\['u'\].shape\[1\]"),
        (
            ({"u": np.ones((2, 3), np.int32)},),
            r"Dtype mismatch for args\[0\]\['u'\]: expected float32 and",
        ),
    ]:
        with pytest.raises(ValueError, match=text):
            exported.call(*args)


def test_what_cannot_be_exported():
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        export.export(lambda x: x)
    with pytest.raises(ValueError, match=r"unknown platforms \['gpu'\]"):
        export.export(jax.jit(jnp.sin), platforms=["gpu"])
    with pytest.raises(NotImplementedError, match="serialization of host_callbacks"):
        export.export(jax.jit(lambda x: jax.pure_callback(np.sin, x, x)))(1.0)
    with pytest.raises(ValueError, match=r"Cannot solve for values of dimension variables"):
        export.export(jax.jit(jnp.sin))(struct(A * B))
    with pytest.raises(
        ValueError,
        match=r"Invalid mixing of symbolic scopes when exporting(?s:.*)\(args\[1\]\) scope",
    ):
        export.export(jax.jit(functools.partial(lambda x, y: x + y)))(
            struct(A), struct(*export.symbolic_shape("c"))
        )
    with pytest.raises(
        TypeError, match="ShapeDtypeStruct'> is not a valid JAX type(?s:.*)Give an array"
    ):
        jax.jit(lambda x: x)(struct(3))
    with pytest.raises(
        TypeError, match="bytes of a serialized exported function are needed, got <class 'str'>"
    ):
        export.deserialize("abc")


def test_platforms():
    f = jax.jit(
        lambda x: (
            lax.platform_dependent(
                x, cpu=lambda x: x * 2, cuda=lambda x: x * 3, default=lambda x: x
            )
            + 1
        )
    )
    x = np.ones(2, np.float32)
    exported = export.export(f, platforms=["tpu", "cuda", "cpu"])(x)
    text = exported.mlir_module()
    assert (
        '%arg0: tensor<i32> {jax.global_constant = "_platform_index"}' in text
        and text.count("stablehlo.case") == 1
    )
    assert through_bytes(exported).call(x).tolist() == [3, 3]
    other = export.export(f, platforms=["cuda"])(x)
    with pytest.raises(
        ValueError, match=r"exported for platforms '\('cuda',\)' but it is used on '\('cpu',\)'"
    ):
        other.call(x)
    unchecked = export.export(
        f, platforms=["cuda"], disabled_checks=[export.DisabledSafetyCheck.platform()]
    )(x)
    assert through_bytes(unchecked).call(x).tolist() == [4, 4]
    assert export.default_export_platform() == "cpu"


def test_platform_dependent_code_in_loops_and_calls():
    def step(x):
        return lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x)

    def f(x):
        y, _ = lax.scan(lambda c, _: (jax.jit(step)(c), None), x, length=3)
        return jax.jit(step)(y)

    exported = export.export(jax.jit(f), platforms=["tpu", "cpu"])(struct(A))
    assert exported.call(np.zeros(2, np.float32)).tolist() == [4, 4]


class Foreign(Primitive):
    name = "foreign"

    def types(self, x):
        return (x,)

    def lower(self, ctx, x):
        return hlo.custom_call(ctx, "some_target", [x], [x.aval])


def test_custom_calls_of_no_guarantee():
    check = export.DisabledSafetyCheck
    f, x = jax.jit(lambda x: Foreign().call(x)[0]), np.ones(2, np.float32)
    with pytest.raises(
        ValueError,
        match=r"custom calls whose targets have no compatibility guarantees:\n    some_target at ",
    ):
        export.export(f)(x)
    allowed = export.export(f, disabled_checks=[check.custom_call("some_target")])(x)
    assert through_bytes(allowed).disabled_safety_checks == (check.custom_call("some_target"),)
    assert (
        check.custom_call("foo").is_custom_call() == "foo"
        and check.platform().is_custom_call() is None
    )
    assert repr(check.custom_call("foo")) == "custom_call:foo" and check.custom_call(
        "foo"
    ) == check.custom_call("foo")


def test_constants_are_in_the_module():
    table = jnp.arange(5.0)
    exported = export.export(jax.jit(lambda i: table[i]))(np.int32(0))
    assert len(exported.in_avals) == 1 and through_bytes(exported).call(np.int32(3)) == 3


@pytest.mark.parametrize("shape", [(), (3,), (A,)], ids=str)
@pytest.mark.parametrize("platforms", [("cpu",), ("cpu", "tpu")])
def test_whether_a_module_depends_on_sizes_or_platforms(shape, platforms):
    exported = export.export(jax.jit(lambda x: x * 2), platforms=platforms)(struct(*shape))
    assert exported.uses_global_constants is (shape == (A,) or len(platforms) > 1)


def test_arguments_that_are_not_used():
    exported = export.export(jax.jit(lambda x, y, z: z))(1.0, struct(A), 2.0)
    assert (
        exported.module_kept_var_idx == (1, 2)
        and exported.call(1.0, np.ones(3, np.float32), 2.0) == 2
    )


def test_static_arguments_are_part_of_the_function():
    exported = export.export(jax.jit(lambda x, n: x * n, static_argnums=1))(1.0, 3)
    assert len(exported.in_avals) == 1 and exported.call(2.0) == 6


def test_sizes_are_64_bits_wide_with_x64():
    with jax.enable_x64(True):
        exported = export.export(jax.jit(lambda x: x[1:] * x.shape[0]))(struct(A))
        assert exported.call(np.ones(3, np.float32)).tolist() == [3, 3]
        assert "tensor<i64>" in exported.mlir_module()


def test_two_calls_at_two_sizes_in_one_program():
    exported = export.export(jax.jit(lambda x: jax.jit(jnp.cumsum)(x)))(struct(A))
    f = jax.jit(lambda x: [exported.call(x[:n])[-1] for n in (1, 2, 3)])
    assert [x.tolist() for x in f(np.ones(3, np.float32))] == [1, 2, 3]


def test_sizes_of_a_table_of_calls():
    """One export serves many sizes."""
    exported = export.export(jax.jit(lambda x, y: x @ y))(struct(A, B), struct(B, 2))
    for a, b in itertools.product((1, 3), repeat=2):
        assert (
            exported.call(np.ones((a, b), np.float32), np.ones((b, 2), np.float32)).tolist()
            == [[b, b]] * a
        )


def test_artifacts_for_readers_that_are_behind():
    for f, version in (
        (jnp.sin, b"StableHLO_v0.9.0"),
        (jax.scipy.special.erf, b"StableHLO_v1.0.0"),
    ):
        artifact = export.export(jax.jit(f))(1.0).mlir_module_serialized
        assert version in mlir.oldest(artifact) and version not in artifact
        assert str(mlir.read_portable(mlir.oldest(artifact))) == str(mlir.read_portable(artifact))


@pytest.mark.parametrize("version", [8, 9, 10, 11])
def test_versions_of_the_calling_convention(version):
    jax.config.update("jax_export_calling_convention_version", version)
    try:
        if version in (9, 10):
            exported = export.export(jax.jit(jnp.sin))(jnp.ones(3))
            assert exported.calling_convention_version == version
        else:
            with pytest.raises(ValueError, match=rf"version {version} is outside the range"):
                export.export(jax.jit(jnp.sin))
    finally:
        jax.config.update("jax_export_calling_convention_version", 10)


def test_a_constraint_on_what_is_no_size_of_an_argument():
    (m,) = export.symbolic_shape("m", constraints=["m >= other"])
    with pytest.raises(ValueError, match=r"(?s)dimension variable 'other'.*m >= other"):
        export.export(jax.jit(lambda x: x))(jax.ShapeDtypeStruct((m,), np.float32))


def test_all_foreign_functions_may_be_called():
    f = jax.jit(lambda x: jax.ffi.ffi_call("no such", jax.ShapeDtypeStruct((3,), np.float32))(x))
    with pytest.raises(ValueError, match="no such"):
        export.export(f)(jnp.ones(3))
    allowed = [export.DisabledSafetyCheck.custom_call("ALL")]
    assert "no such" in export.export(f, disabled_checks=allowed)(jnp.ones(3)).mlir_module()


def test_copies():
    """Exported functions and symbolic sizes do not change, so their copies are themselves."""
    exported = export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((3,), np.float32))
    for duplicate in (copy.copy(exported), copy.deepcopy({"f": exported})["f"]):
        np.testing.assert_array_equal(duplicate.call(jnp.ones(3)), jnp.sin(jnp.ones(3)))
    (size,) = export.symbolic_shape("2*a")
    assert copy.deepcopy([size]) == [size]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("shape", [(6, 6), (2, 5, 3), (3, 5), (0, 3)], ids=str)
def test_factorizations_for_tpus_are_the_compilers_own(shape, dtype):
    def factors(x):
        return lax.linalg.lu(x), jnp.linalg.qr(x), jnp.linalg.qr(x, mode="complete")

    text = export.export(jax.jit(factors), platforms=["cpu", "tpu"])(struct(*shape, dtype=dtype))
    text = text.mlir_module()
    assert "@LuDecomposition" in text
    for name in "@Qr", "@ProductOfElementaryHouseholderReflectors":
        assert (name in text) == (0 not in shape)


def test_solving_for_tpus():
    f = jax.jit(jax.grad(lambda a, b: (jnp.linalg.solve(a, b) + jnp.linalg.inv(a) @ b).sum()))
    exported = export.export(f, platforms=["cpu", "tpu"])(struct(3, 3), struct(3))
    a, b = np.eye(3, dtype=np.float32) * 2, np.ones(3, np.float32)
    assert np.allclose(exported.call(a, b), f(a, b))
