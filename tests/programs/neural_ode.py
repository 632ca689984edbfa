"""An ordinary differential equation by Runge-Kutta steps in a scan, differentiated twice."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

t = jnp.linspace(0.0, 2.0, 9)


def lv(y, t, a):
    return jnp.array([y[0] * (a - y[1]), y[1] * (y[0] - 1.0)])


def rk4(f, y, ts):

    def st(y, tt):
        t, h = tt
        k1 = f(y, t)
        k2 = f(y + h / 2 * k1, t + h / 2)
        k3 = f(y + h / 2 * k2, t + h / 2)
        k4 = f(y + h * k3, t + h)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return (y, y)

    return lax.scan(st, y, (ts[:-1], jnp.diff(ts)))[1]


g = lambda a: rk4(lambda y, t: lv(y, t, a), jnp.array([1.0, 0.5]), jnp.linspace(0.0, 2.0, 41))[
    -1, 0
]
print(g(1.2), jax.grad(g)(1.2), jax.hessian(g)(1.2))
