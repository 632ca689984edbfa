"""Functions with rules of their own: stable logarithms, clipped gradients, a fixed point differentiated implicitly."""

from functools import partial

import teucer as jax
import teucer.numpy as jnp
from teucer import custom_jvp, custom_vjp, grad, jit, lax, vjp, vmap


def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


print(grad(log1pexp)(100.0), vmap(jit(grad(log1pexp)))(jnp.arange(-2.0, 3.0)))


@custom_jvp
def stable(x):
    return jnp.log(1.0 + jnp.exp(x))


@stable.defjvp
def _(primals, tangents):
    (x,) = primals
    (t,) = tangents
    return (stable(x), (1 - 1 / (1 + jnp.exp(x))) * t)


print(
    grad(stable)(100.0),
    jit(grad(stable))(3.0),
    vmap(grad(stable))(jnp.arange(3.0)),
    grad(grad(stable))(1.0),
)
print(jax.make_jaxpr(stable)(1.0))
print(jax.make_jaxpr(grad(stable))(1.0))


@custom_jvp
def h(x, y):
    return jnp.sin(x) * y


h.defjvps(lambda t, ans, x, y: jnp.cos(x) * t * y, lambda t, ans, x, y: jnp.sin(x) * t)
print(grad(h)(2.0, 3.0), grad(h, 1)(2.0, 3.0))


@custom_jvp
def k(x, y):
    return x**2 * y


k.defjvps(lambda t, ans, x, y: 2 * x * y * t, None)
print(grad(k)(2.0, 3.0), grad(k, 1)(2.0, 3.0))


@custom_vjp
def clip_gradient(lo, hi, x):
    return x


def cg_f(lo, hi, x):
    return (x, (lo, hi))


def cg_b(res, g):
    lo, hi = res
    return (None, None, jnp.clip(g, lo, hi))


clip_gradient.defvjp(cg_f, cg_b)
t = jnp.linspace(0.0, 10, 6)
print(vmap(grad(lambda x: jnp.sin(clip_gradient(-0.75, 0.75, x))))(t))


@partial(custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, a, x0):

    def cond(c):
        return jnp.abs(c[0] - c[1]) > 1e-06

    def body(c):
        return (c[1], f(a, c[1]))

    return lax.while_loop(cond, body, (x0, f(a, x0)))[1]


def fp_f(f, a, x0):
    xs = fixed_point(f, a, x0)
    return (xs, (a, xs))


def rev(f, packed, u):
    a, xs, xsb = packed
    _, vx = vjp(lambda x: f(a, x), xs)
    return xsb + vx(u)[0]


def fp_b(f, res, xsb):
    a, xs = res
    _, va = vjp(lambda a: f(a, xs), a)
    (abar,) = va(fixed_point(partial(rev, f), (a, xs, xsb), xsb))
    return (abar, jnp.zeros_like(xs))


fixed_point.defvjp(fp_f, fp_b)


def newton_sqrt(a):
    return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)


print(
    newton_sqrt(2.0), grad(newton_sqrt)(2.0), grad(grad(newton_sqrt))(2.0), 1 / (2 * jnp.sqrt(2.0))
)
print(
    vmap(newton_sqrt)(jnp.array([1.0, 2.0, 3.0])),
    vmap(grad(newton_sqrt))(jnp.array([1.0, 2.0, 3.0, 4.0])),
)


@partial(custom_jvp, nondiff_argnums=(0,))
def app(f, x):
    return f(x)


@app.defjvp
def _(f, p, t):
    return (f(p[0]), 2.0 * t[0])


print(grad(app, 1)(lambda x: x**3, 3.0))


@custom_vjp
def bad(x):
    return x


@custom_vjp
def dbg(x):
    return x


dbg.defvjp(lambda x: (x, None), lambda r, g: (g * 3, g))


@custom_vjp
def ff(x):
    return jnp.sin(x)


ff.defvjp(lambda x: (jnp.sin(x), jnp.cos(x)), lambda c, g: (c * g,))
print(jit(ff)(1.0), jit(grad(ff))(1.0), vmap(jit(grad(ff)))(jnp.arange(2.0)))
print(jax.make_jaxpr(ff)(1.0))


@custom_jvp
def nj(x):
    return x


@custom_jvp
def wrongt(x):
    return x


wrongt.defjvp(lambda p, t: (p[0], jnp.ones(3)))


@custom_vjp
def cv(p, x):
    return p["w"] * x


cv.defvjp(lambda p, x: (p["w"] * x, (p, x)), lambda r, g: ({"w": r[1] * g}, r[0]["w"] * g))
print(grad(cv, (0, 1))({"w": 2.0}, 3.0))


@custom_vjp
def wshape(x):
    return x.sum()


wshape.defvjp(lambda x: (x.sum(), None), lambda r, g: (g * jnp.ones(7),))
