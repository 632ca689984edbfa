"""References.

Programs with them are the same programs written with values, under every transformation; and what
is refused.
"""

import copy
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.test_util import check_grads


def square_by_reference(x):
    ref = jax.new_ref(x)
    ref[...] = ref[...] * ref[...]
    return jax.freeze(ref)


KEYS = [
    0,
    -1,
    slice(1, 3),
    (slice(None), 1),
    (..., 0),
    (None, 2),
    (slice(None, None, -1),),
    np.array([2, 0]),
    (np.array([0, 1]), np.array([1, 2])),
    (np.array([0, 1]), slice(1, 3)),
    np.arange(12).reshape(3, 4) % 2 == 0,
    (),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("jit", [False, True])
def test_keys_are_those_of_numpy(key, jit):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    value = -np.ones_like(x[key])
    written, added = x.copy(), x.copy()
    written[key] = value
    added[key] += value

    def read(ref):
        return ref[key]

    def write(ref):
        return jax.ref.swap(ref, key, value)

    def add(ref):
        ref.addupdate(value, key)

    read, write, add = (jax.jit(f) if jit else f for f in (read, write, add))
    ref = jax.new_ref(x)
    np.testing.assert_array_equal(read(ref), x[key])
    np.testing.assert_array_equal(write(ref), x[key])
    np.testing.assert_array_equal(ref[...], written)
    ref = jax.new_ref(x)
    add(ref)
    np.testing.assert_array_equal(ref[...], added)


def test_traced_places():
    ref = jax.new_ref(jnp.arange(5.0))

    @jax.jit
    def f(ref, i):
        ref[i] = ref[i + 1] * 10
        return ref.at[1:4][i]

    assert float(f(ref, 2)) == 3.0
    np.testing.assert_array_equal(ref[...], [0, 1, 30, 3, 4])


def test_views():
    ref = jax.new_ref(jnp.arange(12, dtype=jnp.int32).reshape(3, 4))
    assert ref.at[1].at[2][...] == 6
    ref.at[1:].reshape(8)[0] = 40
    assert int(ref[1, 0]) == 40
    ref.T[3, 0] = 30
    assert int(ref[0, 3]) == 30
    np.testing.assert_array_equal(ref.bitcast(jnp.uint32)[0], [0, 1, 2, 30])
    assert ref.bitcast(jnp.int16).shape == (6, 4)
    np.testing.assert_array_equal(ref.bitcast(jnp.int16)[0], [0, 1, 2, 30])
    ref.at[2].set(jnp.zeros(4, jnp.int32))
    np.testing.assert_array_equal(ref[2], [0, 0, 0, 0])


def test_printing():
    def f(ref, i):
        ref[0] += 1.0
        ref.at[1:3][i] = 2.0
        ref.addupdate(3.0, 1)
        return ref[...]

    text = str(jax.make_jaxpr(f)(jax.new_ref(jnp.zeros(4)), 0))
    assert (
        "a:Ref{f32[4]}" in text
        and "a[1:3][b] <- " in text
        and "a[1] += " in text
        and "<- a[0]" in text
        and "<- a[...]" in text
    )


def test_keys_and_trees():
    keys = jax.new_ref(jax.random.key(0))
    keys[...] = jax.random.fold_in(keys[...], 1)
    assert jnp.array_equal(
        jax.random.key_data(keys[...]),
        jax.random.key_data(jax.random.fold_in(jax.random.key(0), 1)),
    )
    state = {"a": jax.new_ref(jnp.zeros(2)), "b": (jax.new_ref(1), 3.0)}

    @jax.jit
    def bump(state):
        state["a"][0] += state["b"][1]
        state["b"][0][...] += 1

    bump(state)
    bump(state)
    assert state["a"][...].tolist() == [6.0, 0.0]
    assert int(state["b"][0][...]) == 3


def test_effects_say_which_input():
    a, b = jax.new_ref(1.0), jax.new_ref(2.0)

    @jax.jit
    def inner(b, a):
        b[...] = a[...]

    jaxpr = jax.make_jaxpr(lambda a, x, b: inner(b, a))(a, 1.0, b).jaxpr
    names = {(type(e).__name__, jaxpr.invars.index(e.index)) for e in jaxpr.effects}
    assert names == {("ReadEffect", 0), ("WriteEffect", 2)}
    assert not jax.make_jaxpr(square_by_reference)(1.0).effects


def test_a_write_is_in_place():
    ref = jax.new_ref(jnp.zeros(1000))
    ref[0] = 1.0
    where = ref.unsafe_buffer_pointer()
    ref[1] = 2.0
    jax.jit(lambda ref: ref.addupdate(1.0, 2))(ref)
    assert ref.unsafe_buffer_pointer() == where
    assert ref[...].tolist()[:3] == [1.0, 2.0, 1.0]


def test_the_array_is_its_own():
    x = jnp.zeros(3)
    ref = jax.new_ref(x)
    before = ref[...]
    ref[0] = 1.0
    assert x.tolist() == before.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "wrap", [lambda f: f, jax.jit, jax.checkpoint, lambda f: jax.jit(jax.checkpoint(f))]
)
def test_derivatives_within(wrap):
    check_grads(wrap(square_by_reference), (1.5,), 3, ["fwd", "rev"], rtol=1e-2)
    assert jax.grad(jax.grad(wrap(lambda x: square_by_reference(x) * x)))(2.0) == 12.0


def test_derivatives_through_loops():
    def f(xs):
        total, out = jax.new_ref(0.0), jax.new_ref(jnp.zeros(3))

        def body(_, i):
            total[...] = jnp.sin(total[...] + xs[i])
            out[i] = total[...] * xs[i]
            return (), total[...]

        jax.lax.scan(body, (), jnp.arange(3))

        def step(i, _):
            out[i] = out[i] ** 2

        jax.lax.fori_loop(0, 3, step, None)
        jax.lax.cond(xs[0] > 0, lambda: out.addupdate(xs), lambda: None)
        return jax.freeze(out).sum()

    def plain(xs):
        total, out = 0.0, []
        for x in xs:
            total = jnp.sin(total + x)
            out.append(total * x)
        return (jnp.stack(out) ** 2 + jnp.where(xs[0] > 0, xs, 0)).sum()

    xs = jnp.array([0.3, -0.4, 1.2])
    for x in (xs, -xs):
        np.testing.assert_allclose(f(x), plain(x), rtol=1e-5)
        np.testing.assert_allclose(jax.grad(f)(x), jax.grad(plain)(x), rtol=1e-5)
        np.testing.assert_allclose(
            jax.jit(jax.hessian(f))(x), jax.hessian(plain)(x), rtol=1e-4, atol=1e-5
        )
    batch = jnp.stack([xs, -xs])
    np.testing.assert_allclose(jax.vmap(f)(batch), jax.vmap(plain)(batch), rtol=1e-5)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(f))(batch), jax.vmap(jax.grad(plain))(batch), rtol=1e-5
    )


def test_while_reads_in_the_condition():
    ref = jax.new_ref(1)

    def body(_):
        ref[...] *= 2

    jax.lax.while_loop(lambda _: ref[...] < 100, body, None)
    assert int(ref[...]) == 128


def test_accumulators():
    total = jax.new_ref(jnp.zeros(3))

    @jax.jit
    def f(total, xs):
        def step(_, x):
            y, pull = jax.vjp(lambda w: (w * x).sum(), jnp.ones(3))
            pull.with_refs(total)(jnp.ones_like(y))
            return (), y

        return jax.lax.scan(step, (), xs)[1]

    f(total, jnp.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(total[...], [3, 5, 7])


def test_with_refs_of_what_is_not_wanted():
    x = jnp.arange(3.0)
    _, pull = jax.vjp(lambda x, y: x * jax.jit(jnp.sin)(y), x, x)
    pull = pull.with_refs(jax.ad.GradValue(), jax.ad.DontWant())
    found = jax.jit(pull)(jnp.ones(3))
    assert found[1] == jax.ad.DidntWant()
    np.testing.assert_allclose(found[0], np.sin(x), rtol=1e-6)
    assert len(jax.make_jaxpr(pull)(jnp.ones(3)).eqns) == 1
    with pytest.raises(ValueError, match="arguments of `with_refs`"):
        jax.vjp(jnp.sin, 1.0)[1].with_refs(None)(1.0)


def test_copies_and_types_of_references():
    ref = jax.new_ref(jnp.arange(3.0))
    for other in (copy.deepcopy(ref), pickle.loads(pickle.dumps(ref))):
        other[0] = 9.0
        assert (ref[0], other[0]) == (0, 9)
    assert copy.copy(ref) is ref
    add = jax.jit(lambda r: r.set(r[...] + 1)).lower(jax.typeof(ref)).compile()
    add(ref)
    assert ref[...].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "use",
    [lambda r: r[...], lambda r: r.set(2.0), jax.freeze, lambda r: jax.jit(lambda r: r[...])(r)],
)
def test_an_escaped_reference_is_named(use):
    kept = []
    jax.jit(lambda x: kept.append(jax.new_ref(x)))(1.0)
    with pytest.raises(
        jax.errors.UnexpectedTracerError,
        match=r"(?s)Ref\{float32\[\]\}.*created on line .*test_references.py:\d+",
    ):
        use(kept[0])


@pytest.mark.parametrize("use", [np.asarray, jax.device_put, jnp.asarray, list])
def test_a_reference_where_an_array_is_wanted_is_named(use):
    with pytest.raises(
        TypeError, match=r"(?s)Ref\{float32\[\]\}.*made at .*test_references.py:\d+.*ref\[\.\.\.\]"
    ):
        use(jax.new_ref(1.0))


def test_vmap_of_references():
    ref = jax.new_ref(jnp.zeros((3, 2)))
    jax.vmap(lambda row, i, v: row.addupdate(v, i))(ref, jnp.array([0, 1, 1]), jnp.arange(3.0))
    np.testing.assert_array_equal(ref[...], [[0, 0], [0, 1], [0, 2]])
    shared = jax.new_ref(5.0)
    np.testing.assert_array_equal(jax.vmap(lambda x: x + shared[...])(jnp.arange(2.0)), [5, 6])


def test_run_state_and_discharge_state():
    from teucer.experimental.state import discharge_state, run_state

    def f(refs):
        a, b = refs
        a[...] += b[...]

    assert run_state(f)((1.0, 2.0)) == (3.0, 2.0)
    closed = jax.make_jaxpr(lambda a, b: f((a, b)))(jax.new_ref(1.0), jax.new_ref(2.0))
    jaxpr, consts = discharge_state(closed.jaxpr, closed.consts)
    assert not consts and len(jaxpr.outvars) == 2 and not jaxpr.effects


REFUSED = [
    (
        "returned",
        lambda ref: jax.jit(lambda r: r)(ref),
        "returned a mutable array reference.*passed in as the argument r",
    ),
    ("made and returned", lambda ref: jax.jit(lambda: jax.new_ref(1.0))(), "was created on line"),
    ("twice", lambda ref: jax.jit(lambda a, b: None)(ref, ref), "appeared at both a and b"),
    (
        "closed over",
        lambda ref: jax.jit(lambda a: a[...] + ref[...])(ref),
        "closed over and passed as the argument a",
    ),
    (
        "batch",
        lambda ref: jax.vmap(lambda x: ref.addupdate(x))(jnp.ones(2)),
        "unbatched array reference.*made at",
    ),
    (
        "tangent",
        lambda ref: jax.grad(lambda x: (ref.addupdate(x), x)[1])(1.0),
        "Move the array reference.*made at",
    ),
    ("with respect to", lambda ref: jax.grad(lambda r: r[...])(ref), "Pass the array"),
    ("shape", lambda ref: jax.ref.set(ref, ..., jnp.ones(2)), "Invalid shape for `swap`"),
    ("dtype", lambda ref: jax.ref.set(ref, ..., jnp.int32(1)), "Invalid dtype for `swap`"),
    ("arithmetic", lambda ref: jnp.sin(ref), "operand 0 is a reference"),
    ("no reference", lambda ref: jax.ref.get(jnp.ones(2)), "get: expected a reference"),
    ("frozen", lambda ref: (jax.freeze(ref), ref[...]), "after it was frozen.*made at"),
    (
        "frozen in a program",
        lambda ref: jax.jit(lambda: (lambda r: (jax.freeze(r), r[...]))(jax.new_ref(1.0)))(),
        "frozen",
    ),
    ("list", lambda ref: jax.new_ref([1.0]), "init_val"),
]


@pytest.mark.parametrize(
    "act, text", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refused(act, text):
    with pytest.raises((TypeError, ValueError), match=f"(?s){text}"):
        act(jax.new_ref(0.0))


@pytest.mark.parametrize("x", [0, 0.0, 1j, True, np.float32(0), jnp.asarray(2.0)])
def test_the_dtype_of_a_reference_is_not_weak(x):
    ref = jax.new_ref(x)
    assert not ref.weak_type and not ref[...].weak_type and "weak" not in repr(ref)
    assert ref.dtype == jnp.asarray(x).dtype

    @jax.jit
    def f(x):
        return jax.new_ref(x)[...]

    assert not f(x).weak_type and f(x) == x


def add_to(a, b):
    a[...] += b[...]


def with_rule(a, b):
    f = jax.custom_vjp(lambda a, b, x: (add_to(a, b), x)[1])
    f.defvjp(lambda a, b, x: (f(a, b, x), None), lambda _, ct: (None, None, ct))
    return f(a, b, 1.0)


# Functions that are given two references, and how they name these.
GIVEN_TWO = {
    "jit": (lambda a, b: jax.jit(add_to)(a, b), "a and b"),
    "jit of trees": (lambda a, b: jax.jit(lambda r: add_to(*r))((a, b)), r"r\[0\] and r\[1\]"),
    "vmap": (lambda a, b: jax.vmap(add_to)(a, b), "a and b"),
    "vmap by name": (lambda a, b: jax.vmap(lambda a, *, b: add_to(a, b))(a, b=b), "a and b"),
    "checkpoint": (lambda a, b: jax.checkpoint(add_to)(a, b), "a and b"),
    "cond": (lambda a, b: lax.cond(True, add_to, add_to, a, b), "a and b"),
    "switch": (lambda a, b: lax.switch(1, [add_to, add_to, add_to], a, b), "a and b"),
    "scan": (
        lambda a, b: lax.scan(lambda c, r: (c, add_to(*r)), 0.0, (a, b)),
        r"r\[0\] and r\[1\]",
    ),
    "custom_vjp": (with_rule, "a and b"),
}
# Those that are given one, and close over the other.
GIVEN_ONE = {
    "jit": lambda a, b: jax.jit(lambda a: add_to(a, b))(a),
    "checkpoint": lambda a, b: jax.checkpoint(lambda a: add_to(a, b))(a),
    "cond": lambda a, b: lax.cond(True, lambda a: add_to(a, b), lambda a: None, a),
    "switch": lambda a, b: lax.switch(0, [lambda a: None, lambda a: add_to(a, b)], a),
}


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", GIVEN_TWO)
def test_a_reference_given_twice_is_refused(name, wrap):
    call, named = GIVEN_TWO[name]
    refs = [jax.new_ref(jnp.full(3, x)) for x in (1.0, 2.0)]
    wrap(lambda: [call(*refs), None][1])()
    np.testing.assert_array_equal(refs[0][...], 3)
    with pytest.raises(ValueError, match=f"appeared at both {named}"):
        wrap(lambda: [call(refs[0], refs[0]), None][1])()


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", GIVEN_ONE)
def test_a_reference_given_and_closed_over_is_refused(name, wrap):
    refs = [jax.new_ref(jnp.full(3, x)) for x in (1.0, 2.0)]
    wrap(lambda: GIVEN_ONE[name](*refs))()
    with pytest.raises(ValueError, match="closed over and passed as the argument a"):
        wrap(lambda: GIVEN_ONE[name](refs[0], refs[0]))()


def test_the_first_reference_of_a_process_is_a_struct():
    """What references are is loaded with the first of them."""
    program = (
        "import teucer as jax\n"
        "struct = jax.ShapeDtypeStruct((3,), 'float32', is_ref=True)\n"
        "print(jax.make_jaxpr(lambda ref: ref[0])(struct).in_avals)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[Ref{float32[3]}]\n", "")


def _read(ref):
    return ref[...]


def _write(ref):
    ref[...] = jnp.ones(3)


def _add(ref):
    jax.ref.addupdate(ref, ..., jnp.ones(3))


DONE = {_read: {"ReadEffect"}, _write: {"WriteEffect"}, _add: {"AccumEffect"}}


@pytest.mark.parametrize(
    "within",
    [
        lambda f: f,
        jax.jit,
        lambda f: lambda *refs: lax.fori_loop(0, 2, lambda i, c: (f(*refs), c)[1], 0),
        lambda f: lambda *refs: lax.cond(True, f, lambda *refs: None, *refs),
    ],
    ids=["here", "jit", "loop", "branch"],
)
def test_effects_say_all_that_is_done_to_each_reference(within):
    """In any order, and of those to which nothing is done nothing."""
    refs = [jax.new_ref(jnp.zeros(3)) for _ in range(3)]
    for steps in itertools.product(DONE, repeat=3):

        def f(first, other, _, steps=steps):
            for step in steps:
                step(first)
            steps[0](other)

        jaxpr = jax.make_jaxpr(within(f))(*refs).jaxpr
        found = [
            {type(e).__name__ for e in jaxpr.effects if e.index is ref} for ref in jaxpr.invars
        ]
        assert found == [set().union(*map(DONE.get, steps)), DONE[steps[0]], set()]
