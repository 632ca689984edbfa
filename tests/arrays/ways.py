"""Ways of making functions, arrays, meshes and errors, and dropping them again.

`python tests/arrays/ways.py 1000 1500 NAME ...` says by how much each round grows the process.
"""

import collections
import contextlib
import functools
import gc
import importlib
import itertools
import sys
import threading
import time

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer.experimental import io_callback
from teucer.experimental import pallas as pl
from teucer.sharding import Mesh, NamedSharding
from teucer.sharding import PartitionSpec as P

x = jnp.arange(3.0)
numbers = itertools.count(1)
WAYS = {}


def way(f):
    WAYS[f.__name__] = f
    return f


@way
def jit_of_library():
    jax.jit(jnp.sin)(x)


@way
def jit_of_library_uncalled():
    jax.jit(jnp.sin)


@way
def jit_of_function_static():
    jax.jit(jnp.sum, static_argnames="axis")(x, axis=0)


def f(x):
    return x * 2


@way
def jit_of_global():
    jax.jit(f)(x)


@way
def jit_of_global_donate():
    jax.jit(f, donate_argnums=0)(x + 1)


@way
def jit_of_lambda():
    jax.jit(lambda x: x + 1)(x)


@way
def jit_of_lambda_number():
    n = next(numbers)
    jax.jit(lambda x: x + n)(x)


@way
def jit_of_partial():
    jax.jit(functools.partial(f))(x)


@way
def jit_of_partial_lib():
    jax.jit(functools.partial(jnp.sum, axis=0))(x)


class C:
    def m(self, x):
        return x * 3

    def __call__(self, x):
        return x * 4


c = C()


@way
def jit_of_bound():
    jax.jit(c.m)(x)


@way
def jit_of_bound_new():
    jax.jit(C().m)(x)


@way
def jit_of_callable_object():
    jax.jit(C())(x)


@way
def jit_method_decorator():

    class D:
        @functools.partial(jax.jit, static_argnums=0)
        def m(self, x):
            return x * 3

    D().m(x)


@functools.partial(jax.jit, static_argnums=1)
def jitted_static(x, c):
    return x * 2


@way
def jit_compiler_options():
    jax.jit(f, compiler_options={"xla_cpu_enable_fast_math": False})(x)


@way
def grad_lambda():
    jax.grad(lambda x: (x * x).sum())(x)


@way
def jit_grad_lambda():
    jax.jit(jax.grad(lambda x: (x * x).sum()))(x)


@way
def vmap_lambda():
    jax.vmap(lambda x: x * x)(x)


@way
def jit_vmap_lambda():
    jax.jit(jax.vmap(lambda x: jnp.sin(x) * x))(x)


@way
def jit_grad_library():
    jax.jit(jax.grad(jnp.sum))(x)


@way
def vjp_dropped():
    jax.vjp(lambda x: jnp.sin(x) * x, x)[1](x)


@way
def linearize_dropped():
    jax.linearize(lambda x: jnp.sin(x) * x, x)[1](x)


@way
def jvp_lambda():
    jax.jvp(lambda x: jnp.sin(x) * x, (x,), (x,))


@way
def hessian_lambda():
    jax.hessian(lambda x: (x**3).sum())(x)


@way
def jit_hessian_lambda():
    jax.jit(jax.hessian(lambda x: (x**3).sum()))(x)


@way
def pure_callback():
    jax.jit(
        lambda x: jax.pure_callback(lambda y: np.sin(y), jax.ShapeDtypeStruct((3,), "float32"), x)
    )(x).block_until_ready()


@way
def pure_callback_eager():
    jax.pure_callback(lambda y: np.sin(y), jax.ShapeDtypeStruct((3,), "float32"), x)


@way
def io_callback_jit():
    jax.jit(lambda x: io_callback(lambda y: np.sin(y), jax.ShapeDtypeStruct((3,), "float32"), x))(
        x
    ).block_until_ready()


@way
def io_callback_ordered():
    jax.jit(
        lambda x: io_callback(
            lambda y: np.sin(y), jax.ShapeDtypeStruct((3,), "float32"), x, ordered=True
        )
    )(x).block_until_ready()
    jax.effects_barrier()


@way
def debug_callback():
    jax.jit(lambda x: jax.debug.callback(lambda y: None, x))(x)
    jax.effects_barrier()


class Null:
    def write(self, s):
        pass

    def flush(self):
        pass


@way
def debug_print():
    old, sys.stdout = (sys.stdout, Null())
    try:
        jax.jit(lambda x: jax.debug.print("{}", x))(x)
        jax.effects_barrier()
    finally:
        sys.stdout = old


@way
def debug_print_ordered():
    old, sys.stdout = (sys.stdout, Null())
    try:
        jax.jit(lambda x: jax.debug.print("{}", x, ordered=True))(x)
        jax.effects_barrier()
    finally:
        sys.stdout = old


@way
def custom_jvp():

    @jax.custom_jvp
    def g(x):
        return jnp.sin(x)

    g.defjvp(lambda p, t: (g(p[0]), t[0] * jnp.cos(p[0])))
    jax.jit(lambda x: jax.grad(lambda x: g(x).sum())(x))(x)


@way
def custom_jvp_eager():

    @jax.custom_jvp
    def g(x):
        return jnp.sin(x)

    g.defjvp(lambda p, t: (g(p[0]), t[0] * jnp.cos(p[0])))
    jax.grad(lambda x: g(x).sum())(x)


@way
def custom_vjp():

    @jax.custom_vjp
    def g(x):
        return jnp.sin(x)

    g.defvjp(lambda x: (g(x), x), lambda r, ct: (ct * jnp.cos(r),))
    jax.jit(lambda x: jax.grad(lambda x: g(x).sum())(x))(x)


@way
def custom_vjp_eager():

    @jax.custom_vjp
    def g(x):
        return jnp.sin(x)

    g.defvjp(lambda x: (g(x), x), lambda r, ct: (ct * jnp.cos(r),))
    jax.grad(lambda x: g(x).sum())(x)


@way
def custom_vmap():

    @jax.custom_batching.custom_vmap
    def g(x):
        return jnp.sin(x)

    g.def_vmap(lambda n, b, x: (jnp.sin(x), b[0]))
    jax.jit(jax.vmap(g))(x)


@way
def reference():
    r = jax.new_ref(x)
    r[0] = 1.0
    r[...]


@way
def reference_jit():
    r = jax.new_ref(x)
    jax.jit(lambda r: r[0] * 2)(r)


@way
def reference_closed():
    r = jax.new_ref(x)

    @jax.jit
    def g():
        r[0] = 2.0

    g()


@way
def reference_in_jit():

    @jax.jit
    def g(x):
        r = jax.new_ref(x)
        r[0] = 2.0
        return r[...]

    g(x)


@way
def mesh_new():
    m = Mesh(np.array(jax.devices()[:1]), (f"a{next(numbers)}",))
    NamedSharding(m, P())


@way
def mesh_put():
    m = Mesh(np.array(jax.devices()[:1]), (f"a{next(numbers)}",))
    jax.device_put(x, NamedSharding(m, P(m.axis_names[0])))


@way
def mesh_same():
    m = Mesh(np.array(jax.devices()[:1]), ("a",))
    jax.jit(lambda x: x, out_shardings=NamedSharding(m, P("a")))(x)


@way
def shard_map():
    m = Mesh(np.array(jax.devices()[:1]), ("a",))
    jax.jit(jax.shard_map(lambda x: lax.psum(x, "a"), mesh=m, in_specs=P("a"), out_specs=P()))(x)


@way
def shard_map_eager():
    m = Mesh(np.array(jax.devices()[:1]), ("a",))
    jax.shard_map(lambda x: lax.psum(x, "a"), mesh=m, in_specs=P("a"), out_specs=P())(x)


one_mesh = Mesh(np.array(jax.devices()[:1]), ("a",))


@way
def put_to_mesh():
    jax.device_put(x, NamedSharding(one_mesh, P("a")))


@way
def make_of_parts():
    jax.make_array_from_single_device_arrays((3,), NamedSharding(one_mesh, P("a")), [x])


with_callback = jax.jit(lambda x: io_callback(lambda x: x, x, x))


@way
def run_with_callback():
    with_callback(x)


@way
def set_mesh():
    m = jax.make_mesh((1,), (f"a{next(numbers)}",))
    with jax.set_mesh(m):
        jax.jit(lambda x: x + 1)(x)


@way
def new_shape_fresh_jit():
    jax.jit(lambda x: x + 1)(np.zeros(next(numbers), np.float32))


@way
def new_shape_trace_only():
    jax.eval_shape(lambda x: x + 1, jax.ShapeDtypeStruct((next(numbers),), "float32"))


@way
def new_shape_trace_library():
    jax.eval_shape(jnp.sin, jax.ShapeDtypeStruct((next(numbers),), "float32"))


jf = jax.jit(lambda x: x * 2)


@way
def new_shape_put():
    jax.device_put(np.zeros(next(numbers), np.float32))


@way
def error_traced():
    try:
        jax.jit(lambda x: x + jnp.zeros(7))(x)
    except TypeError:
        pass
    except ValueError:
        pass


@way
def error_concretized():
    with contextlib.suppress(jax.errors.TracerBoolConversionError):
        jax.jit(lambda x: bool(x[0]))(x)


@way
def error_raised():

    def g(x):
        raise KeyError(3)

    with contextlib.suppress(KeyError):
        jax.jit(g)(x)


@way
def error_raised_same():
    with contextlib.suppress(KeyError):
        jitted_raises(x)


@jax.jit
def jitted_raises(x):
    raise KeyError(3)


@way
def error_grad():
    with contextlib.suppress(TypeError):
        jax.grad(lambda x: x)(x)


@way
def error_eager():
    with contextlib.suppress(TypeError, ValueError):
        x + jnp.zeros(7)


@way
def error_callback():

    def bad(y):
        raise ValueError("no")

    with contextlib.suppress(Exception):
        jax.jit(lambda x: jax.pure_callback(bad, jax.ShapeDtypeStruct((3,), "float32"), x))(
            x
        ).block_until_ready()


@way
def thread_eager():
    t = threading.Thread(target=lambda: x + 1)
    t.start()
    t.join()


@way
def thread_jit():
    t = threading.Thread(target=lambda: jax.jit(jnp.sin)(x))
    t.start()
    t.join()


@way
def thread_lambda():
    t = threading.Thread(target=lambda: jax.jit(lambda x: x + 1)(x))
    t.start()
    t.join()


@way
def thread_options():

    def g():
        with jax.default_matmul_precision("float32"), jax.enable_x64(True):
            jax.jit(lambda x: x @ x)(x)

    t = threading.Thread(target=g)
    t.start()
    t.join()


@way
def scan_eager():
    lax.scan(lambda c, y: (c + y, c), 0.0, x)


@way
def scan_closure():
    n = jnp.float32(next(numbers))
    lax.scan(lambda c, y: (c + y * n, c), 0.0, x)


@way
def scan_jit():
    jax.jit(lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x))(x)


@way
def cond_eager():
    lax.cond(True, lambda x: x + 1, lambda x: x + 2, x)


@way
def while_eager():
    lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0)


@way
def fori_eager():
    lax.fori_loop(0, 3, lambda i, c: c + i, 0)


@way
def map_eager():
    lax.map(lambda x: x + 1, x)


@way
def switch_eager():
    lax.switch(1, [lambda x: x + 1, lambda x: x + 2], x)


@way
def grad_scan():
    jax.grad(lambda x: lax.scan(lambda c, y: (c * y, c), 1.0, x)[0])(x)


@way
def associative_scan():
    lax.associative_scan(lambda a, b: a + b, x)


@way
def checkpoint_eager():
    jax.grad(jax.checkpoint(lambda x: jnp.sin(x).sum()))(x)


@way
def checkpoint_jit():
    jax.jit(jax.grad(jax.checkpoint(lambda x: jnp.sin(x).sum())))(x)


@way
def eval_shape():
    jax.eval_shape(lambda x: x + 1, x)


@way
def make_jaxpr():
    jax.make_jaxpr(lambda x: jnp.sin(x) + 1)(x)


@way
def make_jaxpr_str():
    str(jax.make_jaxpr(lambda x: jnp.sin(x) + 1)(x))


@way
def lowered():
    jax.jit(lambda x: x + 1).lower(x).as_text()


@way
def lower_compile():
    jax.jit(lambda x: x + 1).lower(x).compile()(x)


@way
def lower_compile_text():
    jax.jit(lambda x: x + 1).lower(x).compile().as_text()


@way
def compile_analysis():
    k = jax.jit(lambda x: x + 1).lower(x).compile()
    k.cost_analysis()
    k.memory_analysis()


@way
def exported():
    export.export(jax.jit(lambda x: x + 1))(x)


@way
def exported_call():
    export.export(jax.jit(lambda x: x + 1))(x).call(x)


@way
def exported_bytes():
    export.deserialize(export.export(jax.jit(lambda x: x + 1))(x).serialize()).call(x)


@way
def exported_symbolic():
    export.export(jax.jit(lambda x: x + 1))(
        jax.ShapeDtypeStruct(export.symbolic_shape("n"), "float32")
    )


@way
def kernel():

    def k(a, b):
        b[...] = a[...] * 2

    pl.pallas_call(k, out_shape=jax.ShapeDtypeStruct((3,), "float32"), interpret=True)(x)


@way
def kernel_jit():

    def k(a, b):
        b[...] = a[...] * 2

    jax.jit(pl.pallas_call(k, out_shape=jax.ShapeDtypeStruct((3,), "float32"), interpret=True))(x)


big = np.zeros(1000, np.float32)


@way
def closed_over_array():
    a = jnp.asarray(big) + next(numbers)
    jax.jit(lambda x: x + a.sum())(x)


@way
def closed_over_numpy():
    a = np.full(1000, next(numbers), np.float32)
    jax.jit(lambda x: x + jnp.asarray(a).sum())(x)


@way
def random_keys():
    jax.random.normal(jax.random.key(next(numbers)), (3,))


@way
def tree_aux():
    jax.tree.map(lambda a: a, Aux(x, C()))


@jax.tree_util.register_pytree_node_class
class Aux:
    def __init__(self, a, aux):
        self.a, self.aux = (a, aux)

    def tree_flatten(self):
        return ((self.a,), self.aux)

    @classmethod
    def tree_unflatten(cls, aux, xs):
        return cls(xs[0], aux)


jf_aux = jax.jit(lambda t: t.a + 1)


@way
def tree_keys():
    jax.jit(lambda t: [v + 1 for v in t.values()])({f"k{next(numbers)}": x})


@way
def named_scope():

    def g(x):
        with jax.named_scope(f"s{next(numbers)}"):
            return x + 1

    jax.jit(g)(x)


@way
def pmap_lambda():
    jax.pmap(lambda x: x + 1)(x[None])


@way
def clear():
    g = jax.jit(lambda x: x + 1)
    g(x)
    g.clear_cache()


@way
def closure_convert():
    jax.closure_convert(lambda x: x + 1, x)


@way
def custom_root():
    lax.custom_root(lambda x: x - 2.0, 1.0, lambda f, x: x - f(x), lambda g, y: y / g(1.0))


@way
def linear_solve():
    lax.custom_linear_solve(lambda v: v * 2.0, x, lambda mv, b: b / 2.0, symmetric=True)


@way
def composite():
    jax.jit(lax.composite(lambda x: x + 1, name="my.c"))(x)


@way
def ufunc_new():
    jnp.frompyfunc(lambda a, b: a + b, 2, 1)(x, x)


@way
def minimize():
    importlib.import_module("teucer.scipy.optimize").minimize(
        lambda v: ((v - 1) ** 2).sum(), x, method="BFGS"
    )


@way
def debug_nans():
    with jax.debug_nans(True):
        jax.jit(lambda x: x + 1)(x)


@way
def transfer_async():
    y = x + 1
    y.copy_to_host_async()
    np.asarray(y)


@way
def reduce_lambda():
    lax.reduce(x, 0.0, lambda a, b: a + b * 1, (0,))


@way
def reduce_window_lambda():
    lax.reduce_window(x, 0.0, lambda a, b: a + b * 1, (2,), (1,), "VALID")


@way
def named_call():
    jax.named_call(lambda x: x + 1)(x)


@way
def remat_lambda_eager():
    jax.checkpoint(lambda x: jnp.sin(x) * 2)(x)


@way
def vjp_nondiff():

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def app(f, x):
        return f(x)

    app.defvjp(lambda f, x: (f(x), x), lambda f, r, ct: (ct,))
    jax.grad(lambda x: app(lambda y: y * 2, x).sum())(x)


@way
def custom_gradient():
    jax.grad(lambda x: jax.custom_gradient(lambda y: (y * 2, lambda g: (g,)))(x).sum())(x)


@way
def partial_pytree():
    jitted_apply(jax.tree_util.Partial(f), x)


@jax.jit
def jitted_apply(g, x):
    return g(x)


@way
def nested_jit_lambda():
    jax.jit(lambda x: jax.jit(lambda y: y + 1)(x))(x)


@way
def method_with_callback():

    class M:
        def host(self, y):
            return np.sin(y)

        def g(self, x):
            return jax.pure_callback(self.host, jax.ShapeDtypeStruct((3,), "float32"), x)

    m = M()
    m.jitted = jax.jit(m.g)
    m.jitted(x).block_until_ready()


@way
def object_with_jit():

    class M:
        def __init__(self):
            self.a = jnp.ones(3)
            self.step = jax.jit(self.g)

        def g(self, x):
            return x + self.a

    M().step(x)


@way
def linear_transpose():
    jax.linear_transpose(lambda x: x * 2, x)(x)


@way
def jacfwd_lambda():
    jax.jacfwd(lambda x: x * x)(x)


@way
def odeint_lambda():
    importlib.import_module("teucer.experimental.ode").odeint(lambda y, t: -y, 1.0, x)


@way
def cg_lambda():
    importlib.import_module("teucer.scipy.sparse.linalg").cg(lambda v: 2 * v, x)


@way
def platform_dependent():
    lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x + 2)


@way
def checkify_lambda():
    ck = importlib.import_module("teucer.experimental.checkify")

    def g(x):
        ck.check(x[0] < 5, "no {}", x[0])
        return x

    ck.checkify(g)(x)


@way
def checkify_jit():
    ck = importlib.import_module("teucer.experimental.checkify")

    def g(x):
        ck.check(x[0] < 5, "no")
        return x

    jax.jit(ck.checkify(g))(x)


@way
def jet_lambda():
    importlib.import_module("teucer.experimental.jet").jet(lambda x: jnp.sin(x), (x,), ((x,),))


@way
def bcoo():
    sp = importlib.import_module("teucer.experimental.sparse")
    m = sp.BCOO.fromdense(jnp.eye(3))
    jax.jit(lambda m, x: m @ x)(m, x)


@way
def lower_only():
    jax.jit(lambda x: x + 1).lower(x)


@way
def trace_only():
    assert jax.jit(lambda x: x + 1).trace(x).jaxpr


@way
def jit_eval_shape():
    jax.jit(lambda x: x + 1).eval_shape(x)


@way
def deleted():
    y = x + 1
    y.delete()


@way
def donated_lambda():
    jax.jit(lambda x: x * 2, donate_argnums=0)(x + 1)


@way
def static_argnames_lambda():
    jax.jit(lambda x, n: x * n, static_argnames="n")(x, n=3)


@way
def sharding_constraint():
    m = Mesh(np.array(jax.devices()[:1]), ("a",))
    jax.jit(lambda x: lax.with_sharding_constraint(x, NamedSharding(m, P("a"))))(x)


@way
def in_shardings_jit():
    m = Mesh(np.array(jax.devices()[:1]), ("a",))
    jax.jit(f, in_shardings=NamedSharding(m, P("a")))(x)


@way
def explicit_mesh():
    m = jax.make_mesh((1,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(m):
        jax.jit(lambda x: x + 1)(jax.device_put(x, P("a")))


@way
def shard_map_grad():
    m = Mesh(np.array(jax.devices()[:1]), ("a",))
    jax.jit(
        jax.grad(
            lambda x: jax.shard_map(lambda x: x * 2, mesh=m, in_specs=P("a"), out_specs=P("a"))(
                x
            ).sum()
        )
    )(x)


@way
def new_shape_grad():
    jax.eval_shape(
        jax.grad(lambda x: jnp.sin(x).sum()), jax.ShapeDtypeStruct((next(numbers),), "float32")
    )


@way
def new_shape_vmap():
    jax.eval_shape(
        jax.vmap(lambda x: jnp.sin(x).sum()), jax.ShapeDtypeStruct((next(numbers), 2), "float32")
    )


@way
def new_shape_make_jaxpr():
    jax.make_jaxpr(lambda x: x @ x)(jax.ShapeDtypeStruct((next(numbers),), "float32"))


@way
def new_weak_numbers():
    jnp.asarray(next(numbers))


@way
def new_python_scalar_jit():
    jf(float(next(numbers)))


@way
def vmap_new_axis_name():
    n = f"i{next(numbers)}"
    jax.vmap(lambda x: lax.psum(x, n), axis_name=n)(x)


@way
def jit_vmap_new_axis_name():
    n = f"i{next(numbers)}"
    jax.jit(jax.vmap(lambda x: lax.psum(x, n), axis_name=n))(x)


@way
def scan_in_thread():
    t = threading.Thread(target=lambda: lax.scan(lambda c, y: (c + y, c), 0.0, x))
    t.start()
    t.join()


@way
def callback_in_thread():
    t = threading.Thread(target=pure_callback)
    t.start()
    t.join()


@way
def callback_big_closure():
    a = np.zeros(20000, np.float32)
    jax.jit(
        lambda x: jax.pure_callback(lambda y: y + a[:3], jax.ShapeDtypeStruct((3,), "float32"), x)
    )(x).block_until_ready()


@way
def error_in_thread():
    t = threading.Thread(target=error_traced)
    t.start()
    t.join()


@way
def error_in_scan():
    with contextlib.suppress(TypeError):
        lax.scan(lambda c, y: (c + jnp.zeros(2), c), 0.0, x)


@way
def error_in_compile():
    with contextlib.suppress(Exception):
        jax.jit(f, compiler_options={"no_such_option": 1})(x)


@way
def error_big_closure():
    a = np.zeros(20000, np.float32)

    def g(x):
        b = a + 1
        raise KeyError(b.sum())

    with contextlib.suppress(KeyError):
        jax.jit(g)(x)


@way
def error_debug_nans():
    with jax.debug_nans(True), contextlib.suppress(FloatingPointError):
        jax.jit(lambda x: jnp.log(-x - 1))(x)


def resident():
    """KiB of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


def objects():
    """What the collector knows of, by type."""
    jax.debug.compiles().clear()
    gc.collect()
    return collections.Counter([type(o).__name__ for o in gc.get_objects()])


def grown(name, warm, rounds):
    """By how many KiB, and which objects, a round has grown the process."""
    # The compiler takes 37 MiB at its first use, which may come late: programs lie on the disk.
    jax.jit(lambda x: x + time.time())(x)
    for _ in range(warm):
        WAYS[name]()
    gc.collect()
    before = resident()
    for _ in range(rounds):
        WAYS[name]()
    gc.collect()
    kib = (resident() - before) / rounds
    # Counting takes memory, which would be used again in place of what is never freed. The first
    # count is not used: the collector lets go of tuples at the second collection.
    rounds = min(rounds, 100)
    counts = []
    for _ in range(3):
        for _ in range(rounds):
            WAYS[name]()
        counts.append(objects())
    _, counted, more = counts
    more.subtract(counted)
    return kib, {k: n / rounds for k, n in more.items() if n > 0}


if __name__ == "__main__":
    for name in sys.argv[3:] or WAYS:
        kib, more = grown(name, int(sys.argv[1]), int(sys.argv[2]))
        print(f"{name:26s} {kib:8.2f} KiB", {k: round(n, 2) for k, n in more.items() if n > 0.02})
