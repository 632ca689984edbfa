"""Values and derivatives of elementwise functions and many expressions at Python scalars."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

UNARY = [
    "sin",
    "arcsin",
    "tanh",
    "arctanh",
    "exp2",
    "log1p",
    "cbrt",
    "reciprocal",
    "fabs",
    "rint",
    "sinc",
    "i0",
    "nan_to_num",
]
BINARY = [
    "add",
    "divide",
    "power",
    "maximum",
    "arctan2",
    "hypot",
    "logaddexp",
    "fmod",
    "floor_divide",
    "float_power",
    "copysign",
]
SPECIAL = [
    "rsqrt",
    "logistic",
    "erf",
    "erfc",
    "erf_inv",
    "lgamma",
    "digamma",
    "bessel_i1e",
    "square",
]
for n in UNARY:
    f = getattr(jnp, n)
    print(
        n,
        f(0.3),
        jax.grad(f)(0.3),
        jax.jvp(f, (0.3,), (2.0,)),
        jax.vmap(jax.grad(f))(jnp.array([0.2, 0.7])),
    )
for n in BINARY:
    f = getattr(jnp, n)
    print(
        n,
        f(0.3, 2),
        jax.grad(f)(0.3, 2.0),
        jax.vmap(f, (0, None))(jnp.array([0.2, 0.7]), 2.0),
        f(jnp.array([1, 2]), 3),
    )
for n in SPECIAL:
    f = getattr(lax, n)
    print(n, f(0.3), jax.grad(f)(0.3), jax.jit(jax.jacfwd(jax.grad(f)))(0.3))
for e in [
    "x ** 2",
    "x ** 2.5",
    "2 ** x",
    "x ** x",
    "x // 0.2",
    "x % 0.2",
    "divmod(x, 0.2)[1]",
    "-x",
    "+x",
    "abs(x)",
    "1 / x",
    "x - 1",
    "1 - x",
    "(x > 0) * x",
    "jnp.where(x > 0, x, 0)",
    "jnp.clip(x, 0, .1)",
    "jnp.mean(x)",
    "jnp.sum(jnp.stack([x, x]))",
    "jnp.array([x, 2 * x]).sum()",
    "jnp.linspace(0, x, 3).sum()",
    "jnp.full(3, x).sum()",
    "jnp.dot(x, x)",
    "jnp.outer(x, x).sum()",
    "jnp.tile(x, 3).sum()",
    "jnp.repeat(x, 3).sum()",
    "jnp.concatenate([jnp.atleast_1d(x), jnp.ones(2)]).prod()",
    "jnp.linalg.norm(jnp.array([x, 1.]))",
    "jnp.interp(x, jnp.array([0., 1.]), jnp.array([0., 2.]))",
    "jnp.polyval(jnp.array([1., 2., 3.]), x)",
    "jnp.zeros(3).at[1].set(x).sum()",
    "jnp.logspace(0, x, 3).sum()",
    "jnp.diag(jnp.array([x, x])).sum()",
    "jnp.maximum(x, 0.3)",
    "jax.nn.relu(x)",
    "jax.nn.gelu(x)",
    "jax.nn.softplus(x)",
    "jax.nn.silu(x)",
    "jnp.cumsum(jnp.array([x, x])).sum()",
    "jnp.var(jnp.array([x, 1.]))",
    "jnp.std(jnp.array([x, 1.]))",
    "jnp.prod(jnp.array([x, 0.]))",
    "jnp.sort(jnp.array([x, 0.]))[1]",
    "jnp.roll(jnp.array([x, 0.]), 1)[1]",
    "jnp.kron(x, jnp.ones(2)).sum()",
    "jnp.vdot(x, 3.)",
    "jnp.cross(jnp.array([x, 1., 2.]), jnp.ones(3)).sum()",
    "jnp.median(jnp.array([x, 1., 3.]))",
    "jnp.percentile(jnp.array([x, 1.]), 30)",
    "jnp.trace(jnp.full((2, 2), x))",
    "jnp.linalg.det(jnp.array([[x, 1.], [2., 3.]]))",
    "jnp.nansum(jnp.array([x, jnp.nan]))",
    "jnp.logaddexp(x, 0.)",
    "jax.nn.logsumexp(jnp.array([x, 1.]))",
    "jnp.real(x + 1j)",
    "jnp.abs(x + 1j)",
    "jnp.trapezoid(jnp.array([x, 1.]))",
    "jnp.select([x > 0], [x * 2], 0.)",
    "jnp.ones(2) @ jnp.full(2, x)",
    "jnp.einsum('i,i', jnp.full(2, x), jnp.ones(2))",
    "jnp.round(x, 1)",
    "x.astype(jnp.float16).astype(jnp.float32)",
    "jnp.float32(x)",
    "jnp.asarray(x)",
    "jnp.array(x, dtype=jnp.float16).astype(float)",
    "lax.cond(x > 0, jnp.sin, jnp.cos, x)",
    "lax.select(x > 0, x, -x)",
    "lax.fori_loop(0, 3, lambda i, c: c * x, 1.)",
    "lax.scan(lambda c, _: (c * x, None), 1., None, length=3)[0]",
    "jnp.vectorize(lambda a: a * 2)(x)",
    "jax.vmap(lambda a: a * x)(jnp.ones(2)).sum()",
]:
    f = eval("lambda x: " + e)
    xx = jnp.float32(0.3) if "astype" in e else 0.3
    try:
        print(e, jax.grad(f)(xx), repr(jax.jit(f)(xx)), jax.vmap(f)(jnp.array([0.3, 0.4])))
    except Exception as ex:
        print(e, "EXC", type(ex).__name__)
