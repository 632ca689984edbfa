"""Random programs with references are the same programs written with values.

A program is a list of statements on three arrays. `with_references` runs it on references, through
jit, loops, branches and calls;
`with_values` runs it on a list of arrays, in Python: on NumPy's for values, on traced ones for
derivatives and batches.
"""

import random

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

SHAPES = ((), (4,), (3, 4))
WRITES = ("set", "add")


def random_key(rng, shape):
    """A key for an array of a shape; "i" stands for the counter of the loop around."""
    entries = []
    for n in shape:
        entries.append(
            rng.choice([slice(None), rng.randrange(n), "i", slice(1, n), slice(None, None, -1)])
        )
    return tuple(entries) if rng.random() < 0.8 else (...,)


def random_block(rng, depth):
    """[(kind, ...), ...]"""
    block = []
    for _ in range(rng.randrange(1, 4)):
        kind = rng.choice(
            ["write"] * 5 + ["loop", "while", "cond", "jit", "remat", "local"] * (depth > 0)
        )
        if kind == "write":
            to, of = rng.randrange(3), rng.randrange(3)
            keys = random_key(rng, SHAPES[to]), random_key(rng, SHAPES[of])
            block.append((kind, rng.choice(WRITES), to, keys[0], of, keys[1], rng.uniform(-1, 1)))
        elif kind == "cond":
            block.append(
                (kind, rng.randrange(3), random_block(rng, depth - 1), random_block(rng, depth - 1))
            )
        else:
            block.append((kind, random_block(rng, depth - 1)))
    return block


def resolved(key, i):
    return tuple(i if e == "i" else e for e in key) if key != (...,) else key


def value_of(part, scale, shape, xp):
    """A number made of what was read, repeated to a shape."""
    return xp.zeros(shape, np.float32) + xp.sin(xp.sum(part) * np.float32(0.3)) * np.float32(scale)


def with_references(block, refs, i):
    for kind, *rest in block:
        if kind == "write":
            op, to, to_key, of, of_key, scale = rest
            key = resolved(to_key, i)
            value = value_of(refs[of][resolved(of_key, i)], scale, refs[to].at[key].shape, jnp)
            if op == "set":
                refs[to][key] = value
            else:
                refs[to].addupdate(value, key)
        elif kind == "loop":
            jax.lax.scan(
                lambda c, j, body=rest[0]: (with_references(body, refs, j), None),
                None,
                jnp.arange(3),
            )
        elif kind == "while":
            jax.lax.while_loop(
                lambda j: j < 2,
                lambda j, body=rest[0]: (with_references(body, refs, j), j + 1)[1],
                0,
            )
        elif kind == "cond":
            at, yes, no = rest
            jax.lax.cond(
                jnp.sum(refs[at][...]) > 0.1,
                lambda yes=yes: with_references(yes, refs, i),
                lambda no=no: with_references(no, refs, i),
            )
        elif kind == "jit":
            jax.jit(lambda refs, i, body=rest[0]: with_references(body, refs, i))(refs, i)
        elif kind == "remat":
            jax.checkpoint(lambda i, body=rest[0]: with_references(body, refs, i))(i)
        else:
            local = [jax.new_ref(r[...]) for r in refs]
            with_references(rest[0], local, i)
            refs[2][...] = refs[2][...] + jax.freeze(local[2])


def with_values(block, state, i, xp):
    state = list(state)
    for kind, *rest in block:
        if kind == "write":
            op, to, to_key, of, of_key, scale = rest
            key, read = resolved(to_key, i), resolved(of_key, i)
            value = value_of(state[of][read], scale, state[to][key].shape, xp)
            if xp is np:
                new = np.array(state[to])
                new[key] = value if op == "set" else new[key] + value
                state[to] = new
            else:
                state[to] = getattr(state[to].at[key], op)(value)
        elif kind in ("loop", "while"):
            for j in range(3 if kind == "loop" else 2):
                state = with_values(rest[0], state, j, xp)
        elif kind == "cond":
            at, yes, no = rest
            if xp is np:
                state = with_values(yes if np.sum(state[at]) > 0.1 else no, state, i, xp)
            else:
                chosen = jnp.sum(state[at]) > 0.1
                state = [
                    jnp.where(chosen, a, b)
                    for a, b in zip(
                        with_values(yes, state, i, xp), with_values(no, state, i, xp), strict=True
                    )
                ]
        elif kind == "local":
            state[2] = state[2] + with_values(rest[0], state, i, xp)[2]
        else:
            state = with_values(rest[0], state, i, xp)
    return state


def pure(block):
    def f(*arrays):
        refs = [jax.new_ref(x) for x in arrays]
        with_references(block, refs, 1)
        return [jax.freeze(r) for r in refs]

    return f


def inputs(rng):
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    return [numbers.uniform(-1, 1, shape).astype(np.float32) for shape in SHAPES]


def check_values(seed):
    rng = random.Random(seed)
    block, arrays = random_block(rng, 2), inputs(rng)
    expected = with_values(block, arrays, 1, np)
    if seed % 2:
        found = jax.jit(pure(block))(*arrays)
    else:
        refs = [jax.new_ref(x) for x in arrays]
        jax.jit(lambda refs, i: with_references(block, refs, i))(refs, 1)
        found = [r[...] for r in refs]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5, err_msg=str(block))


def check_transforms(seed):
    rng = random.Random(seed)
    block, arrays = random_block(rng, 2), inputs(rng)

    def total(outs):
        return sum(jnp.sum(jnp.sin(y)) for y in outs)

    gradient = jax.jit(jax.grad(lambda xs: total(pure(block)(*xs))))(arrays)
    expected = jax.jit(jax.grad(lambda xs: total(with_values(block, xs, 1, jnp))))(
        [jnp.asarray(x) for x in arrays]
    )
    for x, y in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4, err_msg=str(block))
    batch = [np.stack([x, -x]) for x in arrays]
    found = jax.jit(jax.vmap(pure(block)))(*batch)
    for j in range(2):
        for x, y in zip(found, with_values(block, [b[j] for b in batch], 1, np), strict=True):
            np.testing.assert_allclose(x[j], y, rtol=1e-4, atol=1e-5, err_msg=str(block))


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_values(first):
    for seed in range(first, first + 50):
        check_values(seed)


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_derivatives_and_batches(first):
    for seed in range(first, first + 10):
        check_transforms(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 11000, 500))
def test_ten_thousand(first):
    for seed in range(first, first + 500):
        check_values(seed)
        if seed % 20 == 0:
            check_transforms(seed)
