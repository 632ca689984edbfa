"""Newton's method with an exact Hessian, on the Rosenbrock function of n variables.

jax.hessian is forward over reverse: a column of the Hessian costs about as much as a gradient. The
whole minimisation is one lax.while_loop, so it is one compiled program, and it can itself be mapped
over many starting points with vmap.
"""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

TOLERANCE = 1e-4


def rosenbrock(x):
    """sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2; the minimum is 0 at (1, ..., 1)."""
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def minimize(f, x, *, steps):
    """The point that a damped Newton iteration reaches from x, and the number of steps that it
    took."""
    gradient, hessian = jax.grad(f), jax.hessian(f)

    def unfinished(carry):
        x, index = carry
        return (index < steps) & (jnp.linalg.norm(gradient(x)) > TOLERANCE)

    def step(carry):
        x, index = carry
        direction = jnp.linalg.solve(hessian(x), gradient(x))
        rates = 0.5 ** jnp.arange(8.0)
        values = jax.vmap(lambda rate: f(x - rate * direction))(rates)
        return x - rates[jnp.argmin(values)] * direction, index + 1

    return lax.while_loop(unfinished, step, (x, 0))


def main(steps: int = 100) -> float:
    """Minimise from eight starting points at once; return the largest value of the function that
    remains."""
    starts = jax.random.uniform(jax.random.key(0), (8, 4), minval=0.5, maxval=1.5)
    run = jax.jit(jax.vmap(lambda x: minimize(rosenbrock, x, steps=steps)))
    points, counts = run(starts)
    values = jax.vmap(rosenbrock)(points)
    for start, point, count, value in zip(starts, points, counts, values, strict=True):
        print(f"{start} -> {point} in {count} steps, f = {value:.1e}")
    return float(jnp.max(values))


if __name__ == "__main__":
    main()
