"""What programs use beside operations, compiled for devices that are not there: collectives,
memories, layouts, generators, narrow types, sizes, exported programs."""

import importlib.util
import re

import numpy as np
import pytest

import teucer as jax
from teucer import export, lax
from teucer import numpy as jnp
from teucer.experimental import topologies
from teucer.experimental.compute_on import compute_on
from teucer.experimental.layout import Format, Layout, with_layout_constraint

P = jax.sharding.PartitionSpec
TARGETS = {
    "v5e": ("v5e:2x2", "tpu", "libtpu", {}),
    "H100": ("h100", "cuda", "jax_cuda13_plugin", {"topology": "1x1x4"}),
}
NARROW = (
    "int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float8_e4m3fn", "float8_e5m2",
    "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float8_e4m3b11fnuz", "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)  # fmt: skip
HALVES = [[0, 1], [2, 3]]
COLLECTIVES = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmin": lambda x: lax.pmin(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "all_gather tiled": lambda x: lax.all_gather(x, "i", tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]),
    "pshuffle": lambda x: lax.pshuffle(x, "i", [1, 2, 3, 0]),
    "psum in groups": lambda x: lax.psum(x, "i", axis_index_groups=HALVES),
    "pmax in groups": lambda x: lax.pmax(x, "i", axis_index_groups=HALVES),
    "all_gather in groups": lambda x: lax.all_gather(x, "i", axis_index_groups=HALVES),
    "psum_scatter in groups": lambda x: lax.psum_scatter(
        x, "i", axis_index_groups=HALVES, tiled=True
    ),
    "all_to_all in groups": lambda x: lax.all_to_all(
        x, "i", 0, 0, axis_index_groups=HALVES, tiled=True
    ),
    "psum in a loop": lambda x: lax.fori_loop(0, 3, lambda _, x: lax.pmean(x, "i"), x),
    "gradient of psum": jax.grad(lambda x: (lax.psum(x, "i") * x).sum()),
    **{
        f"psum {dtype}": lambda x, d=dtype: lax.psum(x.astype(d), "i")
        for dtype in ("int32", "int8", "complex64", "bfloat16", "float16", "uint32")
    },
    **{
        f"all_gather {dtype}": lambda x, d=dtype: lax.all_gather(x.astype(d), "i")
        for dtype in ("bool", "int4", "float8_e4m3fn")
    },
}
OFFLOAD = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["kept"],
    offload_src="device",
    offload_dst="pinned_host",
)


def residual(x):
    y = jax.ad_checkpoint.checkpoint_name(jnp.sin(x), "kept")
    return jnp.sin(y)


@compute_on("device_host")
@jax.jit
def on_the_host(x):
    return x + 1


class Described:
    """The devices of a target, and types of arrays on them."""

    def __init__(self, target):
        name, self.platform, _, options = TARGETS[target]
        topology = topologies.get_topology_desc(name, self.platform, **options)
        self.mesh = topologies.make_mesh(topology, (2, 2), ("a", "b"))
        self.line = topologies.make_mesh(topology, (4,), ("i",))
        self.one = jax.sharding.SingleDeviceSharding(topology.devices[0])

    def on_one(self, *shape, dtype="float32", kind=None):
        where = self.one if kind is None else self.one.with_memory_kind(kind)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=where)

    def divided(self, *shape, mesh=None, spec=None, dtype="float32"):
        where = jax.NamedSharding(mesh or self.line, P("i") if spec is None else spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=where)


def collectives(on):
    def each(f):
        return jax.shard_map(f, mesh=on.line, in_specs=P("i"), out_specs=P("i"), check_vma=False)

    for name, f in COLLECTIVES.items():
        yield name, each(f), [on.divided(16, 8)], {}
    ragged = jax.shard_map(
        lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i"),
        mesh=on.line, in_specs=(P("i"),) * 6, out_specs=P("i"), check_vma=False,
    )  # fmt: skip
    operands = [on.divided(16, 8)] * 2 + [on.divided(16, dtype="int32")] * 4
    yield "ragged_all_to_all", ragged, operands, {}
    x = on.divided(8, 8, mesh=on.mesh, spec=P("a", "b"))
    over = {"mesh": on.mesh, "check_vma": False}
    f = jax.shard_map(
        lambda x: lax.psum(x, ("a", "b")), in_specs=P("a", "b"), out_specs=P(), **over
    )
    yield "psum over two axes", f, [x], {}
    f = jax.shard_map(
        lambda x: lax.psum(x, "a"), in_specs=P("a"), out_specs=P(), axis_names={"a"}, **over
    )
    yield "psum beside a free axis", f, [x], {}
    yield (
        "partitioned",
        lambda x: x @ x.T,
        [x],
        {"out_shardings": jax.NamedSharding(on.mesh, P("a"))},
    )


def memories(on):
    x = on.on_one(8, 128)
    for kind in ("pinned_host", "unpinned_host") if on.platform == "tpu" else ("pinned_host",):
        there = on.one.with_memory_kind(kind)
        yield f"to {kind}", lambda x: x * 2, [x], {"out_shardings": there}
        back = lambda x: jax.device_put(x, on.one.with_memory_kind("device")) * 2
        yield f"from {kind}", back, [on.on_one(8, 128, kind=kind)], {"out_shardings": on.one}
    plain = jax.grad(jax.checkpoint(lambda x: residual(x).sum(), policy=OFFLOAD))
    yield "offloaded residuals", plain, [x], {}
    step = jax.checkpoint(lambda c, _: (residual(c), None), policy=OFFLOAD)
    looped = jax.grad(lambda x: lax.scan(step, x, None, length=4)[0].sum())
    yield "offloaded in a loop", looped, [x], {}
    yield "donated", lambda x: x + 1, [x], {"donate_argnums": 0}
    if on.platform == "tpu":
        yield "computed on the host", lambda x: on_the_host(x * 2), [x], {}


def layouts(on):
    turned, x = Format(Layout((1, 0)), on.one), on.on_one(8, 128)
    given = jax.ShapeDtypeStruct((8, 128), "float32", sharding=turned)
    free = Format(Layout.AUTO, on.one)
    yield "of an argument", lambda x: x + 1, [given], {}
    yield "of a result", lambda x: x + 1, [x], {"out_shardings": turned}
    yield "chosen", lambda x: x.T @ x, [x], {"in_shardings": free, "out_shardings": free}
    yield "within", lambda x: with_layout_constraint(x * 2, Layout((1, 0))), [x], {}


def generators(on):
    random = jax.random
    for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
        key = on.on_one(dtype=random.key(0, impl=impl).dtype)
        for name in ("normal", "uniform", "bits", "gumbel", "split"):
            f = getattr(random, name)
            yield (
                f"{impl} {name}",
                lambda k, f=f, n=name: f(k, 4 if n == "split" else (64, 64)),
                [key],
                {},
            )
        many = lambda k: jax.vmap(lambda k: random.normal(k, (8,)))(random.split(k, 4))
        yield f"{impl} of a batch", many, [key], {}
    draws = {
        "gamma": lambda k: random.gamma(k, 1.5, (8,)),
        "poisson": lambda k: random.poisson(k, 3.0, (8,)),
        "binomial": lambda k: random.binomial(k, 10.0, 0.3, (8,)),
        "categorical": lambda k: random.categorical(k, jnp.zeros((4, 8))),
        "permutation": lambda k: random.permutation(k, 16),
        "choice": lambda k: random.choice(k, 16, (4,), replace=False),
        "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 1.0, (8,)),
        "multivariate_normal": lambda k: random.multivariate_normal(k, jnp.zeros(3), jnp.eye(3)),
        "orthogonal": lambda k: random.orthogonal(k, 4),
    }
    key = on.on_one(dtype=random.key(0).dtype)
    for name, f in draws.items():
        yield name, f, [key], {}


def narrow_types(on):
    for d in NARROW:
        x, square = on.on_one(32, 128, dtype=d), on.on_one(128, 128, dtype=d)
        wide = "int32" if "int" in d else "float32"
        yield f"to {d}", lambda x, d=d: x.astype(d), [on.on_one(32, 128)], {}
        yield f"from {d}", lambda x: x.astype("float32"), [x], {}
        product = lambda x, y, w=wide: lax.dot(x, y, preferred_element_type=w)
        yield f"product of {d}", product, [square, square], {}
        yield f"sum of {d}", lambda x: x + x, [x], {}
        yield f"transpose of {d}", lambda x: x.T, [x], {}
        yield f"sort of {d}", lambda x: jnp.sort(x, axis=0), [x], {}
        yield f"total of {d}", lambda x: x.sum(0), [x], {}
        yield f"rows of {d}", lambda x: x[np.array([1, 3])], [x], {}


def sizes_and_exports(on):
    bounded = jax.jit(lambda x: (x * x).sum(), dynamic_dims={"x": {0: 16}})
    yield "a dynamic size", bounded, [on.on_one(8)], {}
    yield "nonzero of a size", lambda x: jnp.nonzero(x > 0, size=4), [on.on_one(8)], {}
    f = jax.jit(lambda x: jnp.sin(x) @ x.T)
    (n,) = export.symbolic_shape("n")
    for name, shape, platforms in (
        ("exported", (4, 8), [on.platform]),
        ("exported with a symbol", (n, 8), [on.platform, "cpu"]),
    ):
        made = export.export(f, platforms=platforms)(jax.ShapeDtypeStruct(shape, "float32"))
        again = export.deserialize(made.serialize())
        yield name, again.call, [on.on_one(4, 8)], {}
    eigh = export.export(jax.jit(jnp.linalg.eigh), platforms=[on.platform])
    made = eigh(jax.ShapeDtypeStruct((4, 4), "float32"))
    yield "exported eigh", made.call, [on.on_one(4, 4)], {}


GROUPS = [collectives, memories, layouts, generators, narrow_types, sizes_and_exports]
# What compilers refuse, and why.
REFUSED = {
    "v5e": {"rows of u?int2": "INT2 is not supported for second minor size"},
    "H100": {
        "sort of (u?int4|float4_e2m1fn)": "does not support custom element sizes",
        "product of float4_e2m1fn": "GEMM is not supported",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_programs_compile(group, target):
    if importlib.util.find_spec(TARGETS[target][2]) is None:
        pytest.skip(f"{target} needs a plugin")
    if group is memories and target == "H100":
        pytest.skip("the plugin describes no memories of GPUs that are not there")
    on, wrong = Described(target), []
    for name, f, args, options in group(on):
        try:
            jitted = f if hasattr(f, "trace") else jax.jit(f, **options)
            jitted.trace(*args).lower(lowering_platforms=(on.platform,)).compile()
        except Exception as err:
            reasons = [why for row, why in REFUSED[target].items() if re.fullmatch(row, name)]
            if not any(re.search(why, str(err)) for why in reasons):
                wrong.append(f"{name}: {type(err).__name__}: {str(err)[:300]}")
    assert not wrong, "\n".join(wrong)
