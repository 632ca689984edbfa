"""Types of libraries.

They are lowered to arrays, and their primitives have rules of their own under every
transformation.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental.hijax import (
    GradAccum,
    HiPrim,
    HiPrimitive,
    HiPspec,
    HiType,
    MappingSpec,
    MutableHiType,
    NullAccum,
    aval_method,
    aval_property,
    instantiate_zeros,
    is_undefined_primal,
    register_hitype,
)
from teucer.experimental.state import WriteEffect


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any


@dataclass(frozen=True)
class PairSpec(MappingSpec):
    first: Any
    second: Any


@dataclass(frozen=True)
class PairType(HiType):
    """Pairs of one type: linear, so that they are their own tangents."""

    part: Any

    def lo_ty(self):
        return [self.part, self.part]

    def lower_val(self, x):
        return [x.first, x.second]

    def raise_val(self, first, second):
        return Pair(first, second)

    def to_tangent_aval(self):
        return PairType(self.part.to_tangent_aval())

    def vspace_zero(self):
        return pair(jnp.zeros(self.part.shape), jnp.zeros(self.part.shape))

    def vspace_add(self, x, y):
        return pair(first(x) + first(y), second(x) + second(y))

    def dec_rank(self, size, spec):
        return PairType(self.part.dec_rank(size, spec.first))

    def inc_rank(self, size, spec):
        return PairType(self.part.inc_rank(size, spec.first))

    def leading_axis_spec(self):
        return PairSpec(0, 0)

    def shard(self, mesh, manual_axes, check_vma, spec):
        return PairType(self.part.shard(mesh, manual_axes, check_vma, spec.each))

    def unshard(self, mesh, check_vma, spec):
        return PairType(self.part.unshard(mesh, check_vma, spec.each))

    def nospec(self, mesh, check_vma, all_names):
        return PairP(jax.P(all_names))

    def str_short(self, short_dtypes=False, **_):
        return f"Pair[{self.part.str_short(short_dtypes)}]"


@dataclass(frozen=True)
class PairP(HiPspec):
    """Both parts lie over a mesh in the same way."""

    each: Any

    def to_lo(self):
        return (self.each, self.each)

    def to_tangent_spec(self):
        return self

    def to_ct_spec(self):
        return PairP(self.each.to_ct_spec())


register_hitype(Pair, lambda x: PairType(jax.typeof(x.first)))


class MakePair(HiPrimitive):
    def abstract_eval(self, x, y):
        return PairType(x), set()

    def to_lojax(self, x, y):
        return Pair(x, y)

    def jvp(self, primals, tangents):
        return pair(*primals), pair(*map(instantiate_zeros, tangents))

    def transpose(self, ct, x, y):
        return [
            first(ct) if is_undefined_primal(x) else None,
            second(ct) if is_undefined_primal(y) else None,
        ]


class Take(HiPrim):
    """One of the two parts; all rules that are needed are stated."""

    def __init__(self, aval, index):
        self.in_avals, self.out_aval, self.params = (aval,), aval.part, {"index": index}
        super().__init__()

    def expand(self, x):
        return (x.first, x.second)[self.index]

    def jvp(self, primals, tangents):
        return self(*primals), self(*tangents)

    def transpose(self, ct, accum):
        assert isinstance(accum, GradAccum)
        accum.accum(
            pair(ct, jnp.zeros_like(ct)) if self.index == 0 else pair(jnp.zeros_like(ct), ct)
        )

    def batch(self, axis, args, dims):
        (x,), (spec,) = args, dims
        return Take(jax.typeof(x), self.index)(x), (spec.first, spec.second)[self.index]


make_pair = MakePair("make_pair")


def pair(x, y):
    return make_pair.bind(x, y)


def first(x):
    return Take(jax.typeof(x), 0)(x)


def second(x):
    return Take(jax.typeof(x), 1)(x)


def swapped(x):
    return pair(second(x), first(x) * 2)


A, B = jnp.arange(3.0), jnp.ones(3)


@pytest.mark.parametrize(
    "wrap",
    [lambda f: f, jax.jit, lambda f: jax.jit(jax.jit(f)), jax.checkpoint],
    ids=["eager", "jit", "jits", "remat"],
)
def test_high_values_go_in_and_out(wrap):
    out = wrap(swapped)(Pair(A, B))
    assert type(out) is Pair
    np.testing.assert_array_equal(out.first, B)
    np.testing.assert_array_equal(out.second, 2 * A)


def test_jaxprs_have_high_variables_until_they_are_lowered():
    traced = jax.jit(swapped).trace(Pair(A, B))
    assert traced.jaxpr.is_high and not traced.lojax.is_high
    assert "a:Pair[f32[3]]" in str(traced.jaxpr) and "make_pair" in str(traced.jaxpr)
    assert not jax.make_jaxpr(jnp.sin)(1.0).is_high
    np.testing.assert_array_equal(traced.lower().compile()(Pair(A, B)).second, 2 * A)


def test_pairs_are_carried_and_scanned():
    def body(carry, x):
        return swapped(carry), pair(first(x) + 1, second(x))

    def f(carry, xs):
        return lax.scan(body, carry, xs)

    xs = Pair(jnp.arange(2.0), jnp.zeros(2))
    carry, ys = f(Pair(A, B), xs)
    np.testing.assert_array_equal(carry.first, 2 * A)
    np.testing.assert_array_equal(ys.first, [1, 2])
    assert type(jax.jit(f)(Pair(A, B), xs)[1]) is Pair


def test_pairs_in_while_and_cond():
    def f(x, n):
        n, x = lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, swapped(c[1])), (n, x))
        return lax.cond(n == 0, swapped, lambda x: x, x)

    out = jax.jit(f)(Pair(A, B), 1)
    np.testing.assert_array_equal(out.first, 2 * A)
    np.testing.assert_array_equal(out.second, 2 * B)


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_of_loops_that_carry_pairs(jit):
    def f(x, loop):
        x = loop(lambda x: pair(2 * jnp.sin(first(x)), second(x) * first(x)), x)
        return (first(x) * second(x)).sum()

    def known(body, x):
        return lax.fori_loop(0, 4, lambda i, x: body(x), x)

    def unknown(body, x):
        return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, body(c[1])), (0, x))[1]

    found, expected = (
        (jax.jit if jit else lambda g: g)(jax.grad(lambda x, loop=loop: f(x, loop)))(Pair(A, B))
        for loop in (unknown, known)
    )
    np.testing.assert_allclose(found.first, expected.first, 1e-6)
    np.testing.assert_allclose(found.second, expected.second, 1e-6)


def total(values):
    """The sum of numbers, and of pairs, whose second parts count twice."""
    return sum(first(v) + 2 * second(v) if type(v) is not Number else v.x for v in values)


@dataclass(frozen=True)
class Number:
    """An array among pairs."""

    x: Any


def closing_while(of_first, of_second):
    return lax.while_loop(
        lambda c: c[0] + total(of_first) < 40.0,
        lambda c: (c[0] + 1.0, swapped(c[1]), c[2] + total(of_second)),
        (0.0, Pair(1.0, 2.0), 0.0),
    )


def closing_cond(of_first, of_second):
    return [
        lax.cond(p, lambda x: x + total(of_first), lambda x: x - total(of_second), 1.0)
        for p in (jnp.asarray(True), jnp.asarray(False))
    ]


def closing_scan(of_first, of_second):
    def step(c, x):
        return (c[0] * total(of_first) + x, swapped(c[1])), c[0] + total(of_second)

    return lax.scan(step, (1.0, Pair(1.0, 2.0)), jnp.arange(3.0))


@pytest.mark.parametrize("of_second", ["", "p", "np", "pn"])
@pytest.mark.parametrize("of_first", ["", "n", "p", "np"])
def test_bodies_close_over_pairs_and_arrays(of_first, of_second):
    """Each body has its constants, whatever their number and kinds, and gives what it gives of
    numbers known before."""

    def made(x, kinds):
        return [
            Number(x * (i + 3)) if k == "n" else pair(x * i, x + i) for i, k in enumerate(kinds)
        ]

    def f(x):
        a, b = made(x, of_first), made(x, of_second)
        outs = [loop(a, b) for loop in (closing_while, closing_cond, closing_scan)]
        parts = lambda y: (first(y), second(y)) if type(jax.typeof(y)) is PairType else y
        return jax.tree.map(parts, outs)

    got = jax.jit(f)(0.5)
    with jax.disable_jit():
        expected = f(0.5)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for y, z in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-6)


@pytest.mark.parametrize("jit", [False, True])
def test_derivatives_ask_the_rules(jit):
    def f(x, y):
        return (first(swapped(pair(x, y))) * second(swapped(pair(x, y)))).sum()  # y * 2x

    f = jax.jit(f) if jit else f
    gx, gy = jax.grad(f, (0, 1))(A, B)
    np.testing.assert_array_equal(gx, 2 * B)
    np.testing.assert_array_equal(gy, 2 * A)
    assert jax.jvp(f, (A, B), (B, B))[1] == (2 * (A + B)).sum()


def test_gradients_of_high_arguments_are_high():
    g = jax.grad(lambda p: (first(p) * second(p)).sum())(Pair(A, B))
    np.testing.assert_array_equal(g.first, B)
    np.testing.assert_array_equal(g.second, A)


def test_vmap_maps_by_specs():
    out = jax.vmap(lambda p: first(p) + second(p), in_axes=PairSpec(0, 0), axis_size=3)(Pair(A, B))
    np.testing.assert_array_equal(out, A + B)


class Times(HiPrim):
    """x * y, with rules for reverse mode alone, and the axes of results of a batch."""

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval, aval), aval, {}
        super().__init__()

    def expand(self, x, y):
        return x * y

    def vjp_fwd(self, moving, x, y):
        return self(x, y), (x, y, moving)

    def vjp_bwd(self, res, ct, x_accum, y_accum):
        x, y, moving = res
        assert [not isinstance(a, NullAccum) for a in (x_accum, y_accum)] == [
            bool(m) for m in moving
        ]
        x_accum.accum(10 * ct * y)
        y_accum.accum(10 * ct * x)

    def batch_dim_rule(self, axis, dims):
        return dims[0] if dims[1] is None else dims[1]


def times(x, y):
    return Times(jax.typeof(x))(x, y)


def test_reverse_rules_are_those_of_the_primitive():
    assert jax.grad(times)(2.0, 3.0) == 30
    assert jax.grad(times, 1)(2.0, 3.0) == 20
    assert jax.jit(jax.grad(times))(2.0, 3.0) == 30
    with pytest.raises(TypeError, match=r"Times: it can be differentiated in reverse mode only"):
        jax.jvp(times, (2.0, 3.0), (1.0, 1.0))


def test_batches_follow_from_where_results_are_mapped():
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(2.0)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(times, (0, None)))(x, y), x * y[:, None])
    np.testing.assert_array_equal(
        jax.vmap(jax.vmap(times, (None, 0)), (0, 1), 1)(y, x.T), (x.T * y).T.T
    )


def test_linear_rules():
    class Cube(HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return x**3

        def lin(self, moving, x):
            return self(x), x

        def linearized(self, x, t):
            return 3 * x**2 * t

    def cube(x):
        return Cube(jax.typeof(x))(x)

    assert (
        jax.linearize(cube, 2.0)[1](1.0)
        == jax.grad(cube)(2.0)
        == jax.jvp(cube, (2.0,), (1.0,))[1]
        == 12
    )


def test_custom_functions_take_high_values():
    @jax.custom_vjp
    def f(p):
        return first(p)

    f.defvjp(lambda p: (f(p), None), lambda _, ct: (pair(7 * ct, ct),))
    g = jax.grad(lambda p: f(p).sum())(Pair(A, B))
    np.testing.assert_array_equal(g.first, 7 * B)


def test_references_to_high_values():
    def f(p):
        ref = jax.new_ref(p)
        ref[...] = swapped(ref[...])
        return jax.freeze(ref)

    for g in (f, jax.jit(f)):
        out = g(Pair(A, B))
        np.testing.assert_array_equal(out.second, 2 * A)
    with pytest.raises(NotImplementedError, match=r"is read and written as a whole"):
        jax.new_ref(Pair(A, B))[0]


def test_primitives_on_references():
    class Double(HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), None, {}
            self.effects = {WriteEffect(0)}
            super().__init__()

        def expand(self, ref):
            ref[...] = ref[...] * 2

    ref = jax.new_ref(3.0)
    for f in (lambda r: Double(jax.typeof(r))(r), jax.jit(lambda r: Double(jax.typeof(r))(r))):
        f(ref)
    assert ref[...] == 12


# What types and specs need not define, and what is asked where they do not define another.
OWN = {
    "normalize": None,
    "str_short": None,
    "tangent_aval": "to_tangent_aval",
    "cotangent_aval": "to_tangent_aval",
    "to_ct_aval": "to_tangent_aval",
}


@pytest.mark.parametrize("cls", [HiType, MutableHiType, HiPspec])
def test_what_a_type_or_a_spec_does_not_define_is_named(cls):
    bare = type("Bare", (cls,), {"__repr__": lambda self: "bare"})()
    asked = 0
    for name, method in vars(cls).items():
        wanted = OWN.get(name, name)
        if name.startswith("_") or not inspect.isfunction(method) or wanted is None:
            continue
        if wanted == "to_tangent_aval" and cls is MutableHiType:
            continue  # their tangents are of the same type
        given = inspect.signature(method).parameters.values()
        args = [None for p in given if p.kind is not p.VAR_POSITIONAL][1:]
        with pytest.raises(NotImplementedError, match=rf"needed here(?s:.*)Bare\.{wanted}\.(\n|$)"):
            method(bare, *args)
        asked += 1
    assert asked >= 3


def test_missing_rules_are_named():
    class Bare(HiPrimitive):
        def abstract_eval(self, x):
            return x, set()

    with pytest.raises(
        NotImplementedError, match=r"Implementation for 'bare'.*\n  Define Bare.to_lojax"
    ):
        Bare("bare").bind(1.0)
    with pytest.raises(
        NotImplementedError, match=r"Differentiation rule for 'bare'.*\n  Define Bare.jvp"
    ):
        jax.grad(Bare("bare").bind)(1.0)

    class Both(HiPrim):
        in_avals, out_aval, params = (), None, {}

        def vjp_bwd(self, *args): ...

        def vjp_bwd_retval(self, *args): ...

    with pytest.raises(AttributeError, match=r"Both defines both vjp_bwd and vjp_bwd_retval"):
        Both()
    with pytest.raises(
        TypeError, match=r"(?s)has tangents of type PairType.*but got one of type float32"
    ):
        jax.jvp(first, (Pair(A, B),), (A,))


@pytest.mark.parametrize("jit", [False, True])
def test_barriers_and_stops_take_them_apart(jit):
    def f(p):
        p, x = lax.optimization_barrier((p, A))
        return (first(lax.stop_gradient(p)) * second(p) * x).sum()

    g = (jax.jit if jit else lambda f: f)(jax.grad(f))(Pair(A, B))
    np.testing.assert_array_equal(g.first, 0 * A)
    np.testing.assert_array_equal(g.second, A * A)


@pytest.mark.parametrize(
    "place",
    [
        lambda p: jax.device_put(p, jax.devices()[0]),
        lambda p: lax.with_sharding_constraint(
            p, jax.sharding.SingleDeviceSharding(jax.devices()[0])
        ),
        lambda p: jax.pmap(swapped)(p),
    ],
)
def test_they_are_not_placed_as_a_whole(place):
    with pytest.raises(
        NotImplementedError, match=r"(device_put|constraint|pmap): .*\n  Place the arrays"
    ):
        place(Pair(A, B))


def test_types_state_members_that_arrays_have_too():
    """Traced values have those of their types, by the same names."""

    @dataclass(frozen=True)
    class Named:
        of: Any

    @dataclass(frozen=True)
    class NamedType(HiType):
        part: Any
        T = aval_property(lambda x: "turned")
        mean = aval_method(lambda x, k: ("mean", k))
        own = aval_method(lambda x: "own")
        _add = staticmethod(lambda x, y: ("sum", y))

        def lo_ty(self):
            return [self.part]

        def lower_val(self, x):
            return [x.of]

        def raise_val(self, of):
            return Named(of)

    register_hitype(Named, lambda x: NamedType(jax.typeof(x.of)))
    seen = []

    @jax.jit
    def f(x, array):
        seen.append((x.T, x.mean(2), x.own(), x + 1))
        with pytest.raises(AttributeError):
            array.own()
        return array.T + array.mean(0)[:, None] + 1

    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(f(Named(array), array), array.T + array.mean(0)[:, None] + 1)
    assert seen == [("turned", ("mean", 2), "own", ("sum", 1))]


def test_functions_of_arrays_take_values_that_stand_for_one():
    @dataclass(frozen=True)
    class Halves:
        whole: Any

        def __jax_array__(self):
            return half.bind(self)

    @dataclass(frozen=True)
    class HalvesType(HiType):
        part: Any
        __jax_array__ = aval_method(lambda x: half.bind(x))

        def lo_ty(self):
            return [self.part]

        def lower_val(self, x):
            return [x.whole]

        def raise_val(self, whole):
            return Halves(whole)

    register_hitype(Halves, lambda x: HalvesType(jax.typeof(x.whole)))

    class Half(HiPrimitive):
        def abstract_eval(self, x):
            return x.part, set()

        def to_lojax(self, x):
            return x.whole / 2

    half = Half("half")

    def f(x):
        return jnp.dot(x, B) + (A @ x) + jnp.zeros_like(x)[0], A * x

    for g in (f, jax.jit(f)):
        total, product = g(Halves(A))
        assert total == 4
        np.testing.assert_array_equal(product, [0, 0.5, 2])


def test_values_that_stand_for_arrays_do_so_under_transformations():
    @dataclass(frozen=True)
    class Twin(Pair):
        def __jax_array__(self):
            return first(self)

    @dataclass(frozen=True)
    class TwinType(PairType):
        __jax_array__ = aval_method(lambda x: first(x))

        def raise_val(self, first, second):
            return Twin(first, second)

        def dec_rank(self, size, spec):
            return TwinType(self.part.dec_rank(size, spec.first))

    register_hitype(Twin, lambda x: TwinType(jax.typeof(x.first)))
    seen = []

    def f(x):
        seen.append(type(x))
        return jnp.dot(x, B) + jnp.square(x)[0]

    expected = A @ B + A[0] ** 2
    x = Twin(A, B)
    tangent = jax.jvp(lambda b: jnp.dot(x, b), (B,), (A,))[1]
    np.testing.assert_allclose(tangent, A @ A)
    np.testing.assert_allclose(jax.jvp(f, (x,), (pair(A, B),))[0], expected)
    np.testing.assert_allclose(jax.linearize(f, x)[0], expected)
    rows = Twin(jnp.stack([A, A]), jnp.stack([B, B]))
    for transformed in (jax.vmap, lambda *a, **k: jax.jit(jax.vmap(*a, **k))):
        out = transformed(f, in_axes=PairSpec(0, 0), axis_size=2)(rows)
        np.testing.assert_allclose(out, [expected, expected])
    assert Twin not in seen


OVER_X = PairP(jax.P("x"))


def mesh_of(kind):
    return jax.make_mesh((2,), ("x",), axis_types=(kind,))


@pytest.mark.parametrize(
    "kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit], ids=["auto", "explicit"]
)
@pytest.mark.parametrize("jit", [False, True])
def test_high_values_are_divided_over_devices(jit, kind):
    with jax.set_mesh(mesh_of(kind)):
        x = Pair(
            jax.device_put(jnp.arange(4.0), jax.P("x")), jax.device_put(jnp.ones(4), jax.P("x"))
        )
        outside = pair(B, A)

        def parts(x):
            assert first(x).shape == (2,)
            return swapped(x), pair(lax.psum(first(x), "x"), second(outside)[:2])

        f = jax.shard_map(parts, in_specs=OVER_X, out_specs=(OVER_X, PairP(jax.P())))
        ours, sums = (jax.jit(f) if jit else f)(x)
    assert type(ours) is Pair
    np.testing.assert_array_equal(ours.second, 2 * np.arange(4.0))
    np.testing.assert_array_equal(sums.first, [2, 4])
    np.testing.assert_array_equal(sums.second, [0, 1])
    assert ours.first.sharding.is_equivalent_to(x.first.sharding, 1)


@pytest.mark.parametrize("check_vma", [True, False])
def test_derivatives_of_high_values_over_devices(check_vma):
    with jax.set_mesh(mesh_of(jax.sharding.AxisType.Auto)):

        def loss(x, y):
            z = pair(
                first(x) * second(y), jnp.sin(second(x))
            )  # kept for the derivative: each device has its own
            return pair(first(z) * first(z), second(z) * first(y))

        f = jax.shard_map(loss, in_specs=(OVER_X, OVER_X), out_specs=OVER_X, check_vma=check_vma)

        def total(f):
            return lambda x, y: (first(f(x, y)) + second(f(x, y))).sum()

        x, y = Pair(jnp.arange(4.0), jnp.ones(4)), Pair(jnp.full(4, 2.0), jnp.arange(4.0))
        for found, expected in zip(
            jax.jit(jax.grad(total(f), (0, 1)))(x, y),
            jax.grad(total(loss), (0, 1))(x, y),
            strict=True,
        ):
            np.testing.assert_allclose(found.first, expected.first, rtol=1e-6)
            np.testing.assert_allclose(found.second, expected.second, rtol=1e-6)


def test_parts_of_a_value_may_lie_differently():
    with jax.set_mesh(mesh_of(jax.sharding.AxisType.Auto)):
        f = jax.shard_map(
            lambda x, y: Both(jax.typeof(x), jax.typeof(y))(x, y),
            in_specs=(jax.P("x"), jax.P()),
            out_specs=BothP((jax.P("x"), jax.P())),
        )
        both = jax.jit(f)(jnp.arange(4.0), jnp.ones(3))
    np.testing.assert_array_equal(both.parts[0], np.arange(4.0))
    assert both.parts[1].shape == (3,)


@dataclass(frozen=True)
class Parts:
    parts: tuple


@dataclass(frozen=True)
class PartsType(HiType):
    """Two arrays, each of a type of its own."""

    types: tuple

    def lo_ty(self):
        return list(self.types)

    def lower_val(self, x):
        return list(x.parts)

    def raise_val(self, *parts):
        return Parts(parts)

    def unshard(self, mesh, check_vma, spec):
        return PartsType(
            tuple(t.unshard(mesh, check_vma, s) for t, s in zip(self.types, spec.each, strict=True))
        )


@dataclass(frozen=True)
class BothP(HiPspec):
    each: tuple

    def to_lo(self):
        return self.each


register_hitype(Parts, lambda x: PartsType(tuple(map(jax.typeof, x.parts))))


class Both(HiPrim):
    """Two arrays as one value; that one of them varies over a mesh axis does not make the other
    vary."""

    def __init__(self, *avals):
        self.in_avals, self.out_aval, self.params = avals, PartsType(avals), {}
        super().__init__()

    def expand(self, *parts):
        return Parts(parts)


class Twins(HiPrim):
    """A pair of which the type does not say over which mesh axes it varies."""

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (
            (aval,),
            PairType(aval.update(vma=frozenset())),
            {},
        )
        super().__init__()

    def expand(self, x):
        return Pair(x, x)


def test_a_type_is_asked_for_its_parts_only_where_it_has_some():
    """Parts say nothing of `shard`, and are whole on each device by P()."""
    with jax.set_mesh(mesh_of(jax.sharding.AxisType.Explicit)):
        value = Parts((jnp.arange(4.0), jnp.ones(4)))
        same = jax.shard_map(lambda x: x, in_specs=jax.P(), out_specs=jax.P())(value)
        np.testing.assert_array_equal(same.parts[0], np.arange(4.0))
        for spec in (jax.P("x"), jax.P(unreduced={"x"}), jax.P(reduced={"x"})):
            with pytest.raises(NotImplementedError, match=r"Define PartsType\.shard"):
                jax.shard_map(lambda x: x, in_specs=spec, out_specs=spec)(value)


def test_specs_of_high_values_are_checked():
    with jax.set_mesh(mesh_of(jax.sharding.AxisType.Auto)):
        x = Pair(jnp.arange(4.0), jnp.ones(4))
        with pytest.raises(ValueError, match=r"not evenly divisible[\s\S]*axis 0 \(of size 3\)"):
            jax.shard_map(swapped, in_specs=OVER_X, out_specs=OVER_X)(Pair(A, B))
        with pytest.raises(ValueError, match="names the axes \\['y'\\]"):
            jax.shard_map(swapped, in_specs=PairP(jax.P("y")), out_specs=OVER_X)(x)
        with pytest.raises(ValueError, match="out_specs which require replication"):
            jax.shard_map(swapped, in_specs=OVER_X, out_specs=PairP(jax.P()))(x)
        with pytest.raises(
            ValueError, match="differs over mesh axes that its out_specs does not name"
        ):
            jax.shard_map(
                lambda x: Twins(jax.typeof(x))(x), in_specs=jax.P("x"), out_specs=PairP(jax.P())
            )(x.first)
        with pytest.raises(TypeError, match="Give in_specs, with a spec of that type"):
            jax.shard_map(swapped, out_specs=OVER_X)(x)
        with pytest.raises(NotImplementedError, match="Call vmap within the function"):
            jax.vmap(
                jax.shard_map(swapped, in_specs=OVER_X, out_specs=OVER_X),
                in_axes=PairSpec(0, 0),
                axis_size=2,
            )(Pair(jnp.ones((2, 4)), jnp.ones((2, 4))))
