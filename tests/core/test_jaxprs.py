"""Jaxprs as text, and what staging makes of Python."""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base.source import is_internal
from teucer.experimental.xla_metadata import set_xla_metadata


def text(f, *args):
    return str(jax.make_jaxpr(f)(*args))


# As JAX 0.10.2 prints them.
def test_golden_texts():
    x = jnp.ones(3)
    assert text(jnp.sin, x) == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    assert text(lambda x: jnp.sin(x) * 2, x) == (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0:f32[] in (c,) }"
    )
    assert (
        text(lambda x: (x, 1, 2.0), 1.0) == "{ lambda ; a:f32[]. let  in (a, 1:i32[], 2.0:f32[]) }"
    )
    assert (
        text(lambda x: jax.jit(lambda y: jnp.sin(y))(x) + 1, 1.0)
        == """\
{ lambda ; a:f32[]. let
    b:f32[] = jit[
      name=<lambda>
      jaxpr={ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    ] a
    c:f32[] = add b 1.0:f32[]
  in (c,) }"""
    )
    assert text(lambda x: lax.top_k(x, 2)[0], jnp.ones(5)).startswith(
        "{ lambda ; a:f32[5]. let b:f32[2] _:i32[2] = top_k"
    )


def test_constants():
    c = jnp.arange(4.0)
    closed = jax.make_jaxpr(lambda x: x + c)(jnp.ones(4))
    assert str(closed) == "{ lambda a:f32[4]; b:f32[4]. let c:f32[4] = add b a in (c,) }"
    assert closed.consts[0] is c
    np.testing.assert_array_equal(
        jax.core.eval_jaxpr(closed.jaxpr, closed.consts, jnp.ones(4))[0], np.arange(4) + 1
    )


def test_scalars_without_a_number_are_no_literals():
    """Of float0 there is no number to be written: it is a constant of the jaxpr."""
    nothing = np.zeros((), jax.dtypes.float0)
    closed = jax.make_jaxpr(lambda x: (x, nothing))(1.0)
    assert str(closed) == "{ lambda a:float0[]; b:f32[]. let  in (b, a) }"
    assert closed.consts[0] is nothing


def test_make_jaxpr_options():
    closed, shapes = jax.make_jaxpr(lambda x: {"a": x}, return_shape=True)(jnp.ones(2))
    assert shapes == {"a": jax.ShapeDtypeStruct((2,), "float32")}
    assert "3" in str(jax.make_jaxpr(lambda x, n: x * n, static_argnums=1)(1.0, 3.0))
    assert closed.in_avals[0].shape == (2,)


def test_source_lines():
    printed = jax.make_jaxpr(lambda x: jnp.sin(x))(1.0).pretty_print(source_info=True)
    assert "test_jaxprs.py" in printed


def test_literals_keep_their_types():
    assert text(lambda x: x * 2, jnp.ones(2, jnp.int32)).count("2:i32[]") == 1
    assert text(lambda x: x * True, jnp.ones(2)) is not None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: 1 if x else 2, jax.errors.TracerBoolConversionError, r"f32\[\]"),
        (lambda x: int(x), jax.errors.ConcretizationTypeError, r"f32\[\]"),
        (
            lambda x: float(x),
            jax.errors.ConcretizationTypeError,
            r"(?s)f32\[\].*try using `x.astype\(float\)`",
        ),
        (lambda x: complex(x), jax.errors.ConcretizationTypeError, r"f32\[\]"),
        (lambda x: np.asarray(x), jax.errors.TracerArrayConversionError, r"f32\[\]"),
        (lambda x: np.sin(x), jax.errors.TracerArrayConversionError, r"f32\[\]"),
        (lambda x: [1, 2][x.astype(int)], jax.errors.TracerIntegerConversionError, r"i32\[\]"),
        (lambda x: range(x.astype(int)), jax.errors.TracerIntegerConversionError, r"i32\[\]"),
        (
            lambda x: jnp.ones(x.astype(int)),
            TypeError,
            "Shapes must be 1D sequences of concrete values",
        ),
        (lambda x: jnp.ones(3)[x > 0], jax.errors.NonConcreteBooleanIndexError, "bool"),
        (lambda x: {x: 1}, TypeError, "unhashable"),
        (lambda x: x.item(), jax.errors.ConcretizationTypeError, r"f32\[\]"),
        (lambda x: x.tolist(), jax.errors.ConcretizationTypeError, r"f32\[\]"),
    ],
)
def test_concretisation_errors(call, error, message):
    with pytest.raises(error, match=message):
        jax.jit(call)(1.0)


@pytest.mark.parametrize(
    ("f", "args", "reason"),
    [
        (lambda x, y: bool(x + y), (1.0, 2.0), "the values of the arguments x and y"),
        (lambda x, y: float(y * 2), (1.0, 2.0), "the value of the argument y"),
        (
            lambda d, *n: int(d["a"][1] + n[0] + n[1]),
            ({"a": (1, 2)}, 3, 4),
            r"the values of the arguments d\['a'\]\[1\], n\[0\] and n\[1\]",
        ),
        (lambda x: jnp.zeros(3)[jnp.arange(3) > 1], (1.0,), "Constants are traced too"),
        (
            lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c if i else -c, x),
            (1.0,),
            "for fori_loop.*the value of the argument i",
        ),
    ],
)
def test_what_an_unknown_value_depends_on(f, args, reason):
    with pytest.raises(
        (jax.errors.JAXTypeError, jax.errors.JAXIndexError),
        match=rf"(?s)<lambda> at .*test_jaxprs.py.*{reason}",
    ):
        jax.jit(f)(*args)


def test_known_values_are_computed_while_tracing():
    def f(x):
        with jax.ensure_compile_time_eval():
            n = int(jnp.sum(jnp.arange(3)))  # of constants alone
            y = jax.jit(lambda a: jnp.sin(a) + n)(x)  # of an argument: traced
            assert isinstance(jnp.ones(2) * n, jax.Array) and not isinstance(
                jnp.ones(2) * n, jax.core.Tracer
            )
        return y * jax.grad(jnp.sin)(0.0)

    assert jnp.allclose(jax.jit(f)(1.0), f(1.0))
    assert jnp.allclose(jax.grad(f)(1.0), jnp.cos(1.0))
    assert jnp.allclose(jax.vmap(jax.jit(f))(jnp.arange(2.0)), jnp.sin(jnp.arange(2.0)) + 3)
    assert "arange" not in str(jax.make_jaxpr(f)(1.0)) and "iota" not in str(jax.make_jaxpr(f)(1.0))
    with (
        pytest.raises(jax.errors.TracerBoolConversionError, match="value of the argument x"),
        jax.ensure_compile_time_eval(),
    ):
        jax.jit(lambda x: x if x > 1 else -x)(1.0)


def test_leaked_tracers():
    kept = []
    jax.jit(lambda x: kept.append(x * 2) or x)(1.0)
    for use in (
        lambda: kept[0] + 1,
        lambda: jax.jit(lambda y: y + kept[0])(1.0),
        lambda: jax.vmap(lambda y: y + kept[0])(jnp.ones(2)),
        lambda: jax.grad(lambda y: y * kept[0])(1.0),
    ):
        with pytest.raises(
            jax.errors.UnexpectedTracerError,
            match=r"(?s)unexpected tracer\..*type float32\[\].*test_jaxprs.py",
        ):
            use()
    kept.clear()
    jax.grad(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[0] * 2


def test_tracebacks_show_user_frames_only():
    import traceback

    def g(x):
        return jnp.dot(x, jnp.ones(5))

    with pytest.raises(TypeError) as info:
        jax.jit(jax.grad(lambda x: g(x).sum()))(jnp.ones(3))
    files = {f.filename for f in traceback.extract_tb(info.value.__traceback__)}
    assert not [name for name in files if is_internal(name)]


# As JAX 0.10.2 prints them.
def test_a_jaxpr_called_twice_is_printed_once():
    f = jax.jit(lambda x: x + 1)
    assert (
        text(lambda x: f(f(x)), 1.0)
        == """\
let lambda = { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) } in
{ lambda ; c:f32[]. let
    d:f32[] = jit[name=<lambda> jaxpr=lambda] c
    e:f32[] = jit[name=<lambda> jaxpr=lambda] d
  in (e,) }"""
    )
    two = text(lambda x: (f(x), f(jnp.ones(2)), f(x), f(jnp.zeros(2))), 1.0)
    assert two.count("let lambda = ") == two.count("let lambda1 = ") == 1
    sin = jnp.sin
    assert "branches=(jaxpr jaxpr)" in text(lambda x: lax.cond(x > 0, sin, sin, x), 1.0)


def test_what_goes_without_saying_is_not_printed():
    assert (
        text(lambda: jnp.ones(3))
        == "{ lambda ; . let a:f32[3] = broadcast_in_dim 1.0:f32[] in (a,) }"
    )
    assert "convert_element_type[new_dtype=int32 weak_type=False] a" in text(
        lambda x: x.astype(int), jnp.ones(3)
    )
    assert "dimension_numbers=(([1], [0]), ([], []))" in text(lambda x: x @ x, jnp.ones((2, 2)))
    assert "_:f32[] = reduce_sum" in text(jax.grad(lambda x: jnp.sum(x * x)), jnp.ones(2))


def test_an_equation_alone():
    eqn = jax.make_jaxpr(lambda x: jax.jit(lambda y: y - 1)(x))(1.0).eqns[0]
    assert (
        str(eqn)
        == """\
b:f32[] = jit[
  name=<lambda>
  jaxpr={ lambda ; a:f32[]. let b:f32[] = sub a 1.0:f32[] in (b,) }
] a"""
    )


def test_name_scopes_are_printed_beside_equations():
    def f(x):
        with jax.named_scope("scope"):
            return jnp.sin(x)

    assert (
        jax.make_jaxpr(f)(1.0).pretty_print(name_stack=True).splitlines()[0].endswith("# [scope]")
    )


def test_name_scopes_of_a_decorated_function_are_those_of_its_thread():
    entered, left = threading.Event(), threading.Event()

    @jax.named_scope("shared")
    def f(x, enter, leave):
        enter.set()
        assert leave.wait(60)
        return x

    def after(name, enter, leave):
        def program(x):
            with jax.named_scope(name):
                return jnp.sin(f(x, enter, leave))

        return jax.make_jaxpr(program)(1.0).pretty_print(name_stack=True)

    # The second thread enters while the first is inside, and leaves after it.
    with ThreadPoolExecutor(1) as pool:

        def second():
            assert entered.wait(60)
            return after("second", both, left)

        both = threading.Event()
        found = pool.submit(second)
        first = after("first", entered, both)
        left.set()
        assert "# [first]" in first
        assert "# [second]" in found.result()


def test_long_lines_break_between_operands():
    lines = text(
        lambda a, b, c: lax.clamp(jnp.full(3, -123456789.0), a, b) + c, *[jnp.ones(3)] * 3
    ).splitlines()
    assert max(map(len, lines)) <= 90


def test_tracers_show_what_they_are():
    shown = []
    keep = lambda x: shown.append(str(x)) or x
    jax.jit(keep)(jnp.ones(2))
    jax.grad(keep)(1.0)
    jax.vmap(keep)(jnp.ones(3))
    jax.jvp(keep, (1.0,), (2.0,))
    assert shown == [
        "JitTracer(float32[2])",
        "GradTracer(primal=1.0, typeof(tangent)=f32[])",
        "VmapTracer(aval=float32[], batched=float32[3])",
        "JVPTracer(primal=1.0, tangent=2.0)",
    ]


@pytest.mark.parametrize("convert", [float, complex])
def test_no_derivative_is_lost_in_a_python_number(convert):
    with pytest.raises(
        jax.errors.ConcretizationTypeError,
        match=rf"{convert.__name__}\(\).*traced array with shape float32",
    ):
        jax.grad(lambda x: x * convert(x))(2.0)
    assert jax.grad(lambda x: x * int(x))(2.5) == 2  # its derivative is zero
    with pytest.raises(TypeError, match="Only integer scalar arrays"):
        jax.grad(lambda x: [x][x])(0.0)
    for f in (int, convert):
        with pytest.raises(TypeError, match=r"Only scalar arrays.*ndim=1"):
            jax.jit(lambda x, f=f: f(x))(jnp.ones(2))


def test_axes_and_shapes_must_be_known():
    x = jnp.ones(3)
    for f in (
        lambda a: jnp.sum(x, axis=a),
        lambda a: jnp.concatenate([x, x], axis=a),
        lambda a: jnp.sort(x, axis=a),
    ):
        with pytest.raises(
            jax.errors.ConcretizationTypeError, match="axis argument must be known statically"
        ):
            jax.jit(f)(0)
    for f in (lambda n: jnp.ones(n), lambda n: jnp.zeros((2, n)), lambda n: x.reshape(n, 1)):
        with pytest.raises(
            TypeError, match="Shapes must be 1D sequences of concrete values of integer type"
        ):
            jax.jit(f)(3)


def test_interpreters_apply_equations_under_what_is_said_of_them():
    def f(x):
        with set_xla_metadata(a="b"):
            return jnp.sin(x)

    (eqn,) = jax.make_jaxpr(f)(1.0).eqns

    def again(x):
        with eqn.ctx.manager:
            y = eqn.primitive.bind(x, **eqn.params)
        return jnp.cos(y)

    assert [e.ctx.xla_metadata for e in jax.make_jaxpr(again)(1.0).eqns] == [{"a": "b"}, {}]


def test_where_results_are_in_what_the_function_returned():
    def f(x):
        return {"a": [x, x + 1], "b": x * 2}, None

    closed = jax.make_jaxpr(f)(1.0)
    info = closed.jaxpr.debug_info
    assert info.result_paths == ("result[0]['a'][0]", "result[0]['a'][1]", "result[0]['b']")
    assert info.resolve_result_paths().safe_result_paths(3) == info.result_paths
    assert info.safe_result_paths(2) == ("", "") and info.safe_arg_names(1) == ("x",)
    assert "arg_names=('x',)" in repr(info)
    assert closed.constvars == []
    assert jax.make_jaxpr(lambda x: x)(1.0).jaxpr.debug_info.result_paths == ("result",)


def test_arguments_have_the_names_that_users_gave_them():
    def make():
        offset = jnp.ones(2)

        def f(x, *rest, scale=1.0, **others):
            return x * scale + offset

        return jax.make_jaxpr(f)(1.0, (2.0, 3.0), [4.0], scale=2.0, more=5.0)

    info = make().jaxpr.debug_info  # the function is gone
    names = ("x", "rest[0][0]", "rest[0][1]", "rest[1][0]", "others['more']", "scale")
    assert sorted(info.arg_names) == sorted(names)
    assert info.func_filename == __file__ and info.func_lineno > 1
    assert jax.make_jaxpr(lambda *args: args)(1.0).jaxpr.debug_info.arg_names == ("args[0]",)


def test_long_lines_are_broken_between_names():
    def f(*xs):
        return jax.jit(lambda *ys: ys[::-1])(*xs)

    # As JAX 0.10.2 prints it.
    expected = """\
{ lambda ; a:f32[10,20] b:f32[10,20] c:f32[10,20] d:f32[10,20] e:f32[10,20] f:f32[10,20]
    g:f32[10,20] h:f32[10,20]. let
    i:f32[10,20] j:f32[10,20] k:f32[10,20] l:f32[10,20] m:f32[10,20] n:f32[10,20]
      o:f32[10,20] p:f32[10,20] = jit[
      name=<lambda>
      jaxpr={ lambda ; a:f32[10,20] b:f32[10,20] c:f32[10,20] d:f32[10,20] e:f32[10,20]
          f:f32[10,20] g:f32[10,20] h:f32[10,20]. let
          \n        in (h, g, f, e, d, c, b, a) }
    ] a b c d e f g h
  in (i, j, k, l, m, n, o, p, i, j, k, l, m, n, o, p, i, j, k, l, m, n, o, p, i,
    j, k, l, m, n, o, p) }"""
    assert str(jax.make_jaxpr(lambda *xs: f(*xs) * 4)(*[jnp.ones((10, 20))] * 8)) == expected


def test_literals_are_printed_as_their_dtype_has_them():
    def text(x):
        return str(jax.make_jaxpr(lambda x: 2.05 * x)(x))

    for _ in range(3):  # later calls take a shorter way
        assert "2.049999952316284:f32[]" in text(jnp.ones(3))
        assert "2.05:f32[]" in text(1.0)  # weak: Python's number


def test_functions_that_unravel_are_equal_where_trees_are_alike():
    traces = []

    @functools.partial(jax.jit, static_argnums=1)
    def run(flat, unravel):
        traces.append(unravel)
        return unravel(flat + 1)

    def ravelled(x):
        return jax.flatten_util.ravel_pytree((x, {"a": jnp.arange(2)}))

    for x in (jnp.ones(3), jnp.zeros(3)):
        flat, unravel = ravelled(x)
        assert jax.tree.map(jnp.shape, run(flat, unravel)) == ((3,), {"a": (2,)})
    assert len(traces) == 1 and jax.tree.leaves(traces[0]) == traces
    run(*ravelled(jnp.ones(4)))
    run(*ravelled(jnp.ones(4, jnp.bfloat16)))
    assert len(traces) == 3


def test_leaves_of_one_dtype_take_that_of_the_vector():
    flat, unravel = jax.flatten_util.ravel_pytree({"a": jnp.ones(2), "b": jnp.ones((1, 1))})
    for dtype in (jnp.bfloat16, jnp.bool_, jnp.int32, jnp.float32):
        tree = unravel(flat.astype(dtype))
        assert [x.dtype for x in jax.tree.leaves(tree)] == [dtype] * 2 and tree["b"].shape == (1, 1)
    _, unravel = jax.flatten_util.ravel_pytree((jnp.ones(2), jnp.arange(2)))
    with pytest.raises(TypeError, match="of dtype bool, but expected dtype float32"):
        unravel(jnp.ones(4, bool))
