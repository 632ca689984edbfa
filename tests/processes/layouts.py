"""Programs over four devices, whose results do not depend on how many processes own these.

Started in one process of four, two of two, four of one, each process writes down what it has of the
results: `python layouts.py FOLDER [rows]`. `test_layouts.py` compares.
"""

import functools
import pickle
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer.experimental import multihost_utils
from teucer.experimental.array_serialization import pytree_serialization
from teucer.experimental.serialize_executable import deserialize_and_load, serialize
from teucer.sharding import AxisType, NamedSharding
from teucer.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `optable`

PROGRAMS = {}


def program(f):
    """A program, which gives a tree."""
    PROGRAMS[f.__name__] = f
    return f


def family(**cases):
    """The same program for each of several arguments."""

    def add(f):
        for name, case in cases.items():
            PROGRAMS[f"{f.__name__}[{name}]"] = functools.partial(f, case)
        return f

    return add


@functools.cache
def mesh(kind="Auto", shape=(2, 2), names=("x", "y"), turned=False):
    devices = np.array(jax.devices()[::-1] if turned else jax.devices()).reshape(shape)
    return jax.sharding.Mesh(devices, names, axis_types=(getattr(AxisType, kind),) * len(shape))


def laid(value, *spec, kind="Auto", **how):
    """A value over the mesh, of which each process makes its own parts."""
    value = np.asarray(value)
    sharding = NamedSharding(mesh(kind, **how), P(*spec))
    return jax.make_array_from_callback(value.shape, sharding, lambda part: value[part])


def numbers(*shape, dtype="f4", seed=0):
    x = np.random.default_rng(seed).normal(size=shape) * 4
    return (x.astype(int) % 2).astype(dtype) if dtype == "bool" else x.astype(jnp.dtype(dtype))


# --- Collectives ----------------------------------------------------------------------------------

AXES = {"x": "x", "y": "y", "both": ("x", "y"), "turned": ("y", "x")}
DTYPES = ("f4", "i4", "bfloat16", "c8", "u1", "bool", "i2")
COLLECTIVES = {
    "psum": lax.psum,
    "pmean": lambda v, a: lax.pmean(v.astype("f4") if v.dtype.kind in "iub" else v, a),
    "pmax": lambda v, a: lax.pmax(v.real, a),
    "pmin": lambda v, a: lax.pmin(v.real, a),
    "all_gather": lax.all_gather,
    "tiled": lambda v, a: lax.all_gather(v, a, axis=1, tiled=True),
    "psum_scatter": lambda v, a: lax.psum_scatter(
        v.reshape(4, -1) if v.dtype != bool else v.reshape(4, -1) * 1, a, tiled=True
    ),
    "all_to_all": lambda v, a: lax.all_to_all(v.reshape(4, -1), a, 0, 1, tiled=True),
    "axis_index": lambda v, a: lax.axis_index(a) + jnp.zeros((1, 1), int),
    "axis_size": lambda v, a: v * lax.axis_size(a),
}


@family(**{f"{c}-{a}": (c, a, "f4") for c in COLLECTIVES for a in AXES})
def collective(case):
    name, axis, dtype = case
    f = jax.shard_map(
        lambda v: COLLECTIVES[name](v, AXES[axis]),
        mesh=mesh(),
        in_specs=P("x", "y"),
        out_specs=P(("x", "y")),
        check_vma=False,
    )
    return jax.jit(f)(laid(numbers(8, 8, dtype=dtype), "x", "y"))


@family(**{f"{c}-{d}": (c, "both", d) for c in COLLECTIVES for d in DTYPES[1:]})
def collective_of(case):
    return collective(case)


@family(
    ring=[(0, 1), (1, 2), (2, 3), (3, 0)],
    back=[(0, 3), (1, 0), (2, 1), (3, 2)],
    swap=[(0, 3), (3, 0)],
    one=[(2, 1)],
    none=[],
)
def permuted(pairs):
    f = jax.shard_map(
        lambda v: lax.ppermute(v, ("x", "y"), pairs),
        mesh=mesh(),
        in_specs=P(("x", "y")),
        out_specs=P(("x", "y")),
    )
    return jax.jit(f)(laid(numbers(8, 3), ("x", "y")))


@family(pairs=[[0, 1], [2, 3]], across=[[0, 3], [1, 2]], all=[[3, 1, 0, 2]])
def groups(of):
    def f(v):
        return lax.psum(v, "d", axis_index_groups=of), lax.all_gather(v, "d", axis_index_groups=of)

    over = {"shape": (4,), "names": ("d",)}
    g = jax.shard_map(f, mesh=mesh(**over), in_specs=P("d"), out_specs=P("d"), check_vma=False)
    return jax.jit(g)(laid(numbers(8, 2), "d", **over))


@program
def collectives_in_loops():
    def f(v):
        def body(c, _):
            c = jnp.tanh(lax.psum(c, "x") / 2) + lax.axis_index("y")
            return c, lax.ppermute(c, "y", [(0, 1), (1, 0)])

        c, ys = lax.scan(body, v, None, length=3)
        last = lax.while_loop(
            lambda s: lax.psum(s[1].sum(), ("x", "y")) < 40,
            lambda s: (s[0] + 1, s[1] + lax.pmax(abs(s[1]), "x") + 1),
            (0, c),
        )
        return c, ys.sum(0), last[1], lax.fori_loop(0, 3, lambda i, w: lax.pmean(w, "y") + i, c)

    g = jax.shard_map(f, mesh=mesh(), in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)
    return jax.jit(g)(laid(numbers(4, 4), "x", "y"))


@program
def collectives_in_branches():
    def f(v, i):
        return lax.cond(i > 0, lambda v: lax.psum(v, "x"), lambda v: v * 3, v)

    g = jax.shard_map(
        f, mesh=mesh(), in_specs=(P("x", "y"), P()), out_specs=P("x", "y"), check_vma=False
    )
    return [jax.jit(g)(laid(numbers(4, 4), "x", "y"), i) for i in (0, 1)]


# --- Transformations ------------------------------------------------------------------------------


def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)


@family(
    grad=jax.grad(loss),
    both=jax.value_and_grad(loss, argnums=(0, 1)),
    hessian=jax.hessian(lambda w, x: loss(w[:4], x[:, :4])),
    jacfwd=jax.jacfwd(loss),
    checkpoint=jax.grad(jax.checkpoint(loss)),
    vmap=jax.vmap(loss, (None, 0)),
    vmapped_grad=jax.vmap(jax.grad(loss), (None, 0)),
    jvp=lambda w, x: jax.jvp(loss, (w, x), (w, x)),
    vjp=lambda w, x: jax.vjp(loss, w, x)[1](2.0),
    linearize=lambda w, x: jax.linearize(loss, w, x)[1](w, x),
)
def transformed(f):
    w, x = laid(numbers(8, 4, seed=1), "y"), laid(numbers(6, 8), "x", "y")
    return jax.jit(f)(w, x)


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, x), lambda x, ct: (jnp.clip(ct * x, -1, 1),))


@jax.custom_jvp
def own(x):
    return jnp.sin(x)


own.defjvp(lambda primals, tangents: (own(*primals), tangents[0] * 7 * jnp.cos(*primals)))


@family(custom_vjp=clipped, custom_jvp=own)
def custom(f):
    x = laid(numbers(8, 4), ("x", "y"))
    inner = jax.shard_map(
        lambda v: lax.psum((f(v) ** 2).sum(), ("x", "y")),
        mesh=mesh(),
        in_specs=P(("x", "y")),
        out_specs=P(),
    )
    return jax.jit(jax.grad(lambda v: (f(v) ** 2).sum()))(x), jax.jit(jax.grad(inner))(x)


@program
def trained():
    w = laid(np.zeros(8, "f4"), "y")
    step = jax.jit(
        lambda w, x: w - 0.1 * jax.grad(lambda w: loss(w[:, None] + 1, x))(w), donate_argnums=0
    )
    for i in range(4):
        w = step(w, laid(numbers(6, 8, seed=i), "x"))
    return w


# --- Explicit types -------------------------------------------------------------------------------


def explicit(f, *args):
    seen = []

    def traced(*args):
        outs = f(*args)
        seen.append(str([jax.typeof(x) for x in jax.tree.leaves(outs)]))
        return outs

    with jax.set_mesh(mesh("Explicit")):
        return jax.jit(traced)(*args), seen


@family(
    add=lambda a, b: a + b[:, :1] * 0,
    product=lambda a, b: jnp.matmul(a, b.T, out_sharding=P("x", None)),
    sum=lambda a, b: (a.sum(0), b.sum(1), a.max()),
    reshard=lambda a, b: jax.reshard(a, P("y", "x")),
    einsum=lambda a, b: jnp.einsum("ij,kj->ik", a, b, out_sharding=P("x", None)),
    reshape=lambda a, b: a.reshape(2, 2, 4),
    scan=lambda a, b: lax.scan(
        lambda c, v: (c + v.sum(), v * 2), 0.0, jax.reshard(a, P(None, "y"))
    ),
    grad=lambda a, b: jax.grad(lambda a: (a * a).sum())(a),
    wrong=lambda a, b: a + jax.reshard(a, P("y", "x")),
)
def typed(f):
    return explicit(
        f, laid(numbers(4, 4), "x", "y", kind="Explicit"), laid(numbers(4, 4), "x", kind="Explicit")
    )


# --- Operations -----------------------------------------------------------------------------------


@family(
    sort=lambda x: jnp.sort(x, 0),
    argsort=lambda x: jnp.argsort(x, 1),
    top_k=lambda x: lax.top_k(x, 3),
    cumsum=lambda x: jnp.cumsum(x, 0),
    fft=jnp.fft.fft,
    fft2=jnp.fft.rfft2,
    roll=lambda x: jnp.roll(x, 3, 0),
    pick=lambda x: x[3],
    slice=lambda x: x[1:7:2, ::-1],
    gather=lambda x: x[jnp.array([7, 0, 3, -1])],
    mask=lambda x: jnp.where(x > 0, x, 0),
    set=lambda x: x.at[2].set(1).at[:, 1].add(2),
    scatter=lambda x: x.at[jnp.array([1, 6]), jnp.array([0, 3])].multiply(2),
    take=lambda x: jnp.take_along_axis(x, jnp.argsort(x, 0), 0),
    dynamic=lambda x: lax.dynamic_slice(x, (5, 2), (3, 3)),
    update=lambda x: lax.dynamic_update_slice(x, x[:2, :2], (7, 0)),
    concatenate=lambda x: jnp.concatenate([x, x * 2], 1),
    pad=lambda x: jnp.pad(x, ((1, 2), (0, 1))),
    transpose=lambda x: x.T,
    reshape=lambda x: x.reshape(4, 16),
    einsum=lambda x: jnp.einsum("ij,kj->ik", x, x),
    cholesky=lambda x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(8)),
    solve=lambda x: jnp.linalg.solve(x + 9 * jnp.eye(8), x),
    qr=lambda x: jnp.abs(jnp.linalg.qr(x)[1]),
    svd=lambda x: jnp.linalg.svd(x, compute_uv=False),
    eigh=lambda x: jnp.linalg.eigvalsh(x + x.T),
    det=jnp.linalg.det,
    inv=lambda x: jnp.linalg.inv(x + 9 * jnp.eye(8)),
    batched=lambda x: jnp.linalg.inv(x.reshape(4, 4, 4) + 9 * jnp.eye(4)),
    conv=lambda x: jnp.convolve(x[0], x[1], "same"),
    softmax=lambda x: jax.nn.softmax(x, 0),
    logsumexp=lambda x: jax.scipy.special.logsumexp(x),
    statistics=lambda x: (x.mean(0), x.std(1), jnp.median(x), jnp.var(x)),
    argmax=lambda x: (x.argmax(), x.argmin(0)),
    weak=lambda x: (jnp.asarray(2.0) * 3, x * 2, lax.full((3,), 1.0)),
    where=lambda x: jnp.nonzero(x > 0, size=9),
    interpolated=lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2),
    histogram=lambda x: jnp.histogram(x, 5),
    int8=lambda x: x.astype("i1").sum(0),
    half=lambda x: x.astype("bfloat16") @ x.astype("bfloat16"),
    complex=lambda x: jnp.exp(1j * x),
    constrained=lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh(), P(None, "y"))),
    checked=lambda x: jnp.isnan(jnp.log(x)).any(),
)
def operation(f):
    """Traced, and one by one."""
    x = laid(numbers(8, 8), "x", "y")
    return jax.jit(f)(x), f(laid(numbers(8, 8), ("y", "x")))


@family(
    sum=jnp.sum,
    nonzero=jnp.nonzero,
    unique=jnp.unique,
    mask=lambda x: x[x > 0],
    repeat=lambda x: jnp.repeat(x, abs(x)),
    bincount=lambda x: jnp.bincount(abs(x)),
    choose=lambda x: jnp.flatnonzero(x),
    intersect=lambda x: jnp.intersect1d(x, x[:3]),
)
def of_values(f):
    return f(laid(numbers(8, dtype="i4"), "x"))


# --- Random numbers -------------------------------------------------------------------------------


@family(
    normal=lambda k: jax.random.normal(k, (8, 4)),
    bits=lambda k: jax.random.bits(k, (8,), "uint8"),
    randint=lambda k: jax.random.randint(k, (8,), 0, 9),
    permutation=lambda k: jax.random.permutation(k, 8),
    categorical=lambda k: jax.random.categorical(k, jnp.ones((8, 3))),
    split=lambda k: jax.random.split(k, 4),
    fold=lambda k: jax.random.fold_in(k, 3),
    gamma=lambda k: jax.random.gamma(k, 2.0, (8,)),
)
def drawn(f):
    out = NamedSharding(mesh(), P())
    key = jax.device_put(jax.random.key(1), out)
    return jax.jit(f)(key), f(key), jax.jit(f, out_shardings=out)(jax.random.key(2))


@program
def drawn_in_parts():
    sharding = NamedSharding(mesh(), P("x", "y"))
    return jax.jit(lambda: jax.random.normal(jax.random.key(0), (8, 8)), out_shardings=sharding)()


@program
def keys_in_parts():
    keys = jax.jit(lambda k: jax.random.split(k, 8), out_shardings=NamedSharding(mesh(), P("x")))(
        jax.random.key(0)
    )
    drawn = jax.jit(jax.vmap(lambda k: jax.random.uniform(k, (3,))))(keys)
    return keys, drawn, jax.random.key_data(keys), keys[3], jax.device_put(keys, laid(0).sharding)


# --- Making and moving arrays ---------------------------------------------------------------------

SPECS = {"x": P("x"), "y": P(None, "y"), "both": P("x", "y"), "one": P(("y", "x")), "all": P()}


@family(**{f"{a}-{b}": (a, b) for a in SPECS for b in SPECS})
def moved(case):
    x = laid(numbers(8, 8), *SPECS[case[0]])
    there = NamedSharding(mesh(), SPECS[case[1]])
    turned = NamedSharding(mesh(turned=True), SPECS[case[1]])
    return jax.device_put(x, there), jax.device_put(x, turned)


@family(**{s: s for s in SPECS})
def made(name):
    where, value = NamedSharding(mesh(), SPECS[name]), numbers(8, 8)
    keys = jax.random.split(jax.random.key(3), (8, 8))
    data = np.asarray(jax.random.key_data(keys))
    parts = [
        jax.device_put(value[index], device)
        for device, index in where.addressable_devices_indices_map((8, 8)).items()
    ]
    key_parts = [
        jax.device_put(jax.random.wrap_key_data(data[index]), device)
        for device, index in where.addressable_devices_indices_map((8, 8)).items()
    ]
    return {
        "put": jax.device_put(value, where),
        "tree": jax.device_put([value, 2.0, {"a": value > 0}], NamedSharding(mesh(), P())),
        "callback": jax.make_array_from_callback((8, 8), where, lambda i: value[i]),
        "dtype": jax.make_array_from_callback((8, 8), where, lambda i: value[i], dtype="f4"),
        "parts": jax.make_array_from_single_device_arrays((8, 8), where, parts),
        "local": jax.make_array_from_process_local_data(
            where,
            value[_local(where, (8, 8))],
            (8, 8),
        ),
        "zeros": jnp.zeros((8, 8), device=where),
        "full": jnp.full((8, 8), 3, device=where),
        "array": jnp.asarray(value, device=where),
        "like": jnp.ones_like(jax.device_put(value, where)),
        "program": jax.jit(lambda: jnp.arange(64.0).reshape(8, 8), out_shardings=where)(),
        "keys": jax.device_put(keys, where),
        "keys by callback": jax.make_array_from_callback(
            (8, 8), where, lambda i: jax.random.wrap_key_data(data[i])
        ),
        "keys of parts": jax.make_array_from_single_device_arrays((8, 8), where, key_parts),
        "keys of local": jax.make_array_from_process_local_data(
            where, jax.random.wrap_key_data(data[_local(where, (8, 8))]), (8, 8)
        ),
    }


def _local(sharding, shape):
    """What this process has of an array: its parts, side by side."""
    parts = sharding.addressable_devices_indices_map(shape).values()
    return np.ix_(
        *(
            sorted({i for part in parts for i in range(*part[axis].indices(n))})
            for axis, n in enumerate(shape)
        )
    )


@program
def described():
    x = laid(numbers(8, 8), "x", "y")
    r = laid(numbers(3), None)
    return [
        repr(r),
        str(r),
        str(x.sharding.spec),
        x.is_fully_replicated,
        r.is_fully_replicated,
        x.sharding.shard_shape(x.shape),
        len(x.sharding.device_set),
        x.committed,
        x.nbytes,
        str(jax.typeof(x)),
        str(jax.eval_shape(lambda v: v * 2, x)),
        len(x.global_shards),
        str(jax.make_jaxpr(lambda v: v.sum())(x)),
        r.tolist(),
        float(x.sum()),
        int(x.size),
        bool((x * 0).sum() == 0),
        np.asarray(r),
        jax.device_get(r),
        f"{x.sum():.3f}",
    ]


@program
def exchanged():
    x = laid(numbers(8, 8), "x", "y")
    return [
        multihost_utils.process_allgather(x, tiled=True),
        multihost_utils.process_allgather([x, {"r": laid(numbers(3))}], tiled=True),
        multihost_utils.broadcast_one_to_all(np.arange(3)),
    ]


# --- Programs as data -----------------------------------------------------------------------------


def _compiled():
    x = laid(numbers(8, 8), "x", "y")
    f = jax.jit(lambda v: {"sum": (v @ v.T).sum(0), "v": v * 2})
    return f.lower(x).compile(), f, x


@program
def compiled():
    run, f, x = _compiled()
    text = run.as_text()
    return run(x), f.lower(x).as_text().count("func"), "all-reduce" in text or "all-gather" in text


@program
def compiled_and_loaded():
    run, _, x = _compiled()
    again = deserialize_and_load(*serialize(run), execution_devices=jax.devices())
    return again(x)


@program
def exported():
    _, f, x = _compiled()
    made = export.deserialize(export.export(f)(x).serialize())
    return made.call(x), str(made.in_avals), made.nr_devices


@program
def saved():
    x = {"a": laid(numbers(8, 8), "x", "y"), "b": laid(np.int32(3)), "c": laid(numbers(8), "y")}
    folder = str(
        multihost_utils.broadcast_one_to_all(
            np.frombuffer(tempfile.mkdtemp().encode().ljust(200), "u1")
        )
        .tobytes()
        .decode()
        .strip()
    )
    pytree_serialization.save(x, folder)
    flat = NamedSharding(mesh(), P(("y", "x")))
    return pytree_serialization.load(
        folder, {"a": flat, "b": NamedSharding(mesh(), P()), "c": flat}
    )


@program
def references():
    def f(x):
        ref = jax.new_ref(x)
        ref[1] = ref[0] + 1
        ref[...] += 2
        return ref[...], lax.fori_loop(0, 3, lambda i, c: c + ref[i].sum(), 0.0)

    x = laid(numbers(8, 8), "x", "y")
    ref = jax.new_ref(laid(numbers(4), "x"))
    jax.jit(lambda r: r.__setitem__(..., r[...] * 2))(ref)
    return jax.jit(f)(x), ref[...]


@program
def called_back():
    x = laid(numbers(8, 8), "x", "y")

    def part(v):
        return jax.pure_callback(
            lambda a: np.sin(a), jax.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method="sequential"
        )

    f = jax.shard_map(part, mesh=mesh(), in_specs=P("x", "y"), out_specs=P("x", "y"))
    return jax.jit(f)(x), jax.jit(part)(x)


@program
def pmapped():
    """Each process has its part, of the results too."""
    here = [i for i, d in enumerate(jax.devices()) if d in jax.local_devices()]
    x = numbers(4, 3)[here]
    f = jax.pmap(lambda v: (lax.psum(v, "i"), v * lax.axis_index("i")), "i")
    return [_OfRows(here, np.asarray(y)) for y in f(x)]


class _OfRows:
    """Rows of a result, by their numbers."""

    def __init__(self, rows, value):
        self.rows, self.value = rows, value


# --- Mistakes -------------------------------------------------------------------------------------


@family(
    indivisible=lambda x: jax.device_put(np.ones(6), NamedSharding(mesh(), P(("x", "y")))),
    axis=lambda x: NamedSharding(mesh(), P("z")),
    twice=lambda x: NamedSharding(mesh(), P("x", "x")),
    rank=lambda x: jax.device_put(np.ones(4), NamedSharding(mesh(), P("x", "y"))),
    shapes=lambda x: x @ x[:3],
    axis_name=lambda x: jax.jit(lambda v: lax.psum(v, "nothing"))(x),
    specs=lambda x: jax.shard_map(lambda v: v, mesh=mesh(), in_specs=P("z"), out_specs=P())(x),
    out=lambda x: jax.shard_map(lambda v: v, mesh=mesh(), in_specs=P("x"), out_specs=P())(x),
    meshes=lambda x: jax.jit(jnp.add)(x, laid(numbers(8, 8), "x", turned=True)),
    traced=lambda x: jax.jit(lambda v: float(v.sum()))(x),
    condition=lambda x: jax.jit(lambda v: v if v.sum() > 0 else -v)(x),
    deleted=lambda x: (x.delete(), x + 1),
    donated=lambda x: (jax.jit(lambda v: v + 1, donate_argnums=0)(x), x + 1),
    items=lambda x: x.sum(0).item(),
    assignment=lambda x: x.__setitem__(0, 1),
    raised=lambda x: jax.jit(lambda v: 1 / 0)(x),
    integers=lambda x: jax.grad(lambda v: v.astype(int).sum())(x.astype(int)),
    static=lambda x: jax.jit(lambda v, s: v, static_argnums=1)(x, [1]),
    reshape=lambda x: x.reshape(7, 9),
    callback_shape=lambda x: jax.make_array_from_callback((8, 8), x.sharding, lambda i: np.ones(3)),
    constraint=lambda x: lax.with_sharding_constraint(x[:3], NamedSharding(mesh(), P("x"))),
    groups=lambda x: jax.shard_map(
        lambda v: lax.psum(v, "x", axis_index_groups=[[0, 5]]),
        mesh=mesh(), in_specs=P("x"), out_specs=P("x"),
    )(x),
)  # fmt: skip
def mistake(f):
    return f(laid(numbers(8, 8), "x", "y"))


# --- The operation table --------------------------------------------------------------------------


def rows(part):
    """The rows of the table of which operands are laid over the mesh; every so many of them."""
    from optable.table import all_ops, precision_of
    from optable.trees import flat_call

    def spread(value):
        value = np.asarray(value)
        free, spec = ["x", "y"], [None] * value.ndim
        for axis, n in enumerate(value.shape):
            if free and n and n % 2 == 0:
                spec[axis] = free.pop(0)
        return laid(value, *spec)

    def run(op):
        dtype = op.vmap_dtype
        with precision_of(dtype):
            flat = [flat_call(op, call) for call in op.calls(dtype)[: op.vmap_calls]]
            inputs = [[spread(x) for x in leaves] for leaves, _ in flat]
            return jax.jit(
                lambda inputs: [f(*xs) for (_, f), xs in zip(flat, inputs, strict=True)]
            )(inputs)

    ops = [op for op in all_ops().values() if "sharding" not in op.exceptions]
    return {f"row {op}": functools.partial(run, op) for op in ops[part]}


# --- What a process has of the results ------------------------------------------------------------


def shown(x):
    """A result as what can be compared, and written."""
    if isinstance(x, _OfRows):
        return {"type": "rows", "shards": dict(zip(x.rows, x.value, strict=True))}
    if not isinstance(x, jax.Array):
        plain = isinstance(x, str | bool | int | float | np.ndarray | np.generic)
        return {"type": type(x).__name__, "value": x if plain else repr(x)}
    found = {"type": str(x.dtype), "shape": x.shape, "weak": x.weak_type, "committed": x.committed}
    found["key"] = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    devices = jax.devices()
    if len(x.sharding.device_set) > 1:
        found["spec"] = str(getattr(x.sharding, "spec", None))
        found["kind"] = x.sharding.memory_kind
        found["devices"] = sorted(devices.index(d) for d in x.sharding.device_set)
        found["shards"] = {
            devices.index(s.device): (
                str(s.index),
                s.replica_id,
                np.asarray(jax.random.key_data(s.data) if found["key"] else s.data),
            )
            for s in x.addressable_shards
        }
    else:
        found["value"] = np.asarray(jax.random.key_data(x) if found["key"] else x)
    return found


def result_of(f):
    try:
        return [shown(x) for x in jax.tree.leaves(f(), is_leaf=lambda x: isinstance(x, _OfRows))]
    except Exception as err:
        text = re.sub(
            r"0x[0-9a-f]+|id=\d+|device ids \[[\d, ]+\]|process_index=\d+|/tmp/\S+", "", str(err)
        )
        return [{"type": "error", "value": f"{type(err).__name__}: {text.partition(chr(10))[0]}"}]


if __name__ == "__main__":
    jax.distributed.initialize(initialization_timeout=60)
    if sys.argv[2:] == ["rows"]:
        programs = rows(slice(None))
    elif sys.argv[2:] == ["sample"]:
        programs = {name: PROGRAMS[name] for name in [*PROGRAMS][::7]} | rows(slice(7, None, 64))
    else:
        programs = {**PROGRAMS, **rows(slice(None, None, 16))}
    results = {}
    for name, f in programs.items():
        print("runs", name, file=sys.stderr, flush=True)
        results[name] = result_of(f)
    place = Path(sys.argv[1]) / f"{jax.process_count()}-{jax.process_index()}"
    place.write_bytes(pickle.dumps(results))
