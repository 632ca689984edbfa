"""Mistakes that users make.

Each error is of a class that users know, names what was given, and shows nothing of ours.
"""

import math
import os
import re
import subprocess
import sys
import traceback

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random
from teucer._base.source import is_internal
from teucer.experimental import io_callback

X, M, I = jnp.arange(3.0), jnp.ones((2, 3)), jnp.arange(3)
KEY = random.key(0)


def jit(f, *args, **options):
    return jax.jit(f, **options)(*args)


def mapped(f):
    # Over Explicit axes the layout of the argument would be refused first.
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(f, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))


class Box:
    def __repr__(self):
        return "a box"


counted, reverse = jax.custom_vjp(lambda x: x), jax.custom_vjp(lambda x: x)
counted.defvjp(lambda x: (x, None), lambda res, ct: (ct, ct))
reverse.defvjp(lambda x: (x, None), lambda res, ct: (ct,))

MISTAKES = {
    # values of traced arrays
    "if on a tracer": (lambda: jit(lambda x: 1 if x > 0 else 2, 1.0), "TracerBoolConversionError"),
    "while on a tracer": (
        lambda: jit(lambda n: [n := n - 1 for _ in iter(lambda: bool(n > 0), False)], 3),
        "TracerBoolConversionError",
    ),
    "and of tracers": (
        lambda: jit(lambda x: (x > 0) and (x < 3), 1.0),
        "TracerBoolConversionError",
    ),
    "not of a tracer": (lambda: jit(lambda x: not x, True), "TracerBoolConversionError"),
    "assert on a tracer": (
        lambda: jit(lambda x: (_ for _ in ()).throw(AssertionError) if not (x > 0) else x, 1.0),
        "TracerBoolConversionError",
    ),
    "in on a tracer": (lambda: jit(lambda x: 2.0 in x, X), "TracerBoolConversionError"),
    "min of tracers": (lambda: jit(lambda x, y: min(x, y), 1.0, 2.0), "TracerBoolConversionError"),
    "sorted tracers": (lambda: jit(lambda x: sorted([x, 1.0]), 2.0), "TracerBoolConversionError"),
    "int of a tracer": (lambda: jit(lambda x: int(x), 1), "ConcretizationTypeError"),
    "float of a tracer": (lambda: jit(lambda x: float(x), 1.0), "ConcretizationTypeError"),
    "complex of a tracer": (lambda: jit(lambda x: complex(x), 1.0), "ConcretizationTypeError"),
    "item of a tracer": (lambda: jit(lambda x: x.item(), 1.0), "ConcretizationTypeError"),
    "tolist of a tracer": (lambda: jit(lambda x: x.tolist(), X), "ConcretizationTypeError"),
    "range of a tracer": (lambda: jit(lambda n: list(range(n)), 3), "TracerIntegerConversionError"),
    "list times a tracer": (lambda: jit(lambda n: [0] * n, 3), "TypeError"),
    "index a list by a tracer": (
        lambda: jit(lambda n: [1, 2, 3][n], 1),
        "TracerIntegerConversionError",
    ),
    "slice a list by a tracer": (
        lambda: jit(lambda n: [1, 2, 3][:n], 1),
        "TracerIntegerConversionError",
    ),
    "np on a tracer": (lambda: jit(lambda x: np.sin(x), X), "TracerArrayConversionError"),
    "np.array of a tracer": (lambda: jit(lambda x: np.array(x), X), "TracerArrayConversionError"),
    "np.asarray of list of tracers": (
        lambda: jit(lambda x: np.asarray([x, x]), 1.0),
        "TracerArrayConversionError",
    ),
    "math on a tracer": (lambda: jit(lambda x: math.sin(x), 1.0), "ConcretizationTypeError"),
    "format of a tracer": (lambda: jit(lambda x: f"{x:.2f}", 1.0), "ConcretizationTypeError"),
    "hash of a tracer": (lambda: jit(lambda x: {x: 1}, 1.0), "TypeError"),
    "set of tracers": (lambda: jit(lambda x: {x}, 1.0), "TypeError"),
    "iterate over a 0-d tracer": (lambda: jit(lambda x: list(x), 1.0), "TypeError"),
    "len of a 0-d tracer": (lambda: jit(lambda x: len(x), 1.0), "TypeError"),
    "unpack wrong": (lambda: jit(lambda x: (lambda a, b: a)(*x), X), "TypeError"),
    "mask index": (lambda: jit(lambda x: x[x > 0], X), "NonConcreteBooleanIndexError"),
    "nonzero": (lambda: jit(lambda x: jnp.nonzero(x), X), "ConcretizationTypeError"),
    "unique": (lambda: jit(lambda x: jnp.unique(x), X), "ConcretizationTypeError"),
    "where with one argument": (
        lambda: jit(lambda x: jnp.where(x > 0), X),
        "ConcretizationTypeError",
    ),
    "zeros of a tracer": (lambda: jit(lambda n: jnp.zeros(n), 3), "TypeError"),
    "zeros of a tuple": (lambda: jit(lambda n: jnp.zeros((2, n)), 3), "TypeError"),
    "arange of a tracer": (lambda: jit(lambda n: jnp.arange(n), 3), "ConcretizationTypeError"),
    "linspace of a tracer": (
        lambda: jit(lambda n: jnp.linspace(0, 1, n), 3),
        "ConcretizationTypeError",
    ),
    "reshape to a tracer": (lambda: jit(lambda x, n: x.reshape(n, -1), X, 3), "TypeError"),
    "slice by tracers": (lambda: jit(lambda x, n: x[:n], X, 2), "IndexError"),
    "eye of a tracer": (lambda: jit(lambda n: jnp.eye(n), 3), "TypeError"),
    "repeat by a tracer": (
        lambda: jit(lambda x, n: jnp.repeat(x, n), X, 2),
        "ConcretizationTypeError",
    ),
    "tile by a tracer": (lambda: jit(lambda x, n: jnp.tile(x, n), X, 2), "TypeError"),
    "broadcast_to a tracer": (
        lambda: jit(lambda x, n: jnp.broadcast_to(x, (n, 3)), X, 2),
        "TypeError",
    ),
    "axis of a tracer": (
        lambda: jit(lambda x, a: jnp.sum(x, axis=a), M, 1),
        "ConcretizationTypeError",
    ),
    "one_hot of a tracer": (
        lambda: jit(lambda x, n: jax.nn.one_hot(x, n), I, 3),
        "ConcretizationTypeError",
    ),
    "split by a tracer": (
        lambda: jit(lambda x, n: jnp.split(x, n), X, 3),
        "ConcretizationTypeError",
    ),
    "top_k of a tracer": (
        lambda: jit(lambda x, k: lax.top_k(x, k), X, 2),
        "ConcretizationTypeError",
    ),
    "random shape of a tracer": (lambda: jit(lambda n: random.normal(KEY, (n,)), 2), "TypeError"),
    "split a key in a tracer": (lambda: jit(lambda n: random.split(KEY, n), 2), "TypeError"),
    "dynamic_slice size": (
        lambda: jit(lambda x, n: lax.dynamic_slice(x, (0,), (n,)), X, 2),
        "TypeError",
    ),
    "full of a tracer": (lambda: jit(lambda n: jnp.full(n, 1.0), 2), "TypeError"),
    "scan length": (
        lambda: jit(lambda n: lax.scan(lambda c, _: (c, c), 0, None, length=n), 3),
        "ConcretizationTypeError",
    ),
    "dtype of a tracer": (lambda: jit(lambda x: jnp.zeros(3, x), 1.0), "ValueError"),
    # arrays
    "assign to an element": (lambda: X.__setitem__(0, 1.0), "TypeError"),
    "assign to a tracer": (lambda: jit(lambda x: x.__setitem__(0, 1.0), X), "TypeError"),
    "delete element": (lambda: X.__delitem__(0), "AttributeError"),
    "float index": (lambda: X[1.5], "TypeError"),
    "str index": (lambda: X["a"], "TypeError"),
    "list index": (lambda: X[[0, 1]], "TypeError"),
    "tuple too long": (lambda: X[0, 1], "IndexError"),
    "too many ellipses": (lambda: M[..., ...], "IndexError"),
    "mask of another shape": (lambda: X[jnp.array([True, False])], "IndexError"),
    "index of floats": (lambda: X[jnp.array([0.0, 1.0])], "TypeError"),
    "add shapes": (lambda: X + jnp.ones(4), "TypeError"),
    "matmul shapes": (lambda: M @ M, "TypeError"),
    "dot shapes": (lambda: jnp.dot(M, M), "TypeError"),
    "matmul of a scalar": (lambda: M @ 3.0, "ValueError"),
    "einsum letters": (lambda: jnp.einsum("ij,jk->ik", M, X), "ValueError"),
    "einsum sizes": (lambda: jnp.einsum("ij,jk->ik", M, M), "ValueError"),
    "einsum count": (lambda: jnp.einsum("ij,jk,kl->il", M, M.T), "ValueError"),
    "concatenate shapes": (lambda: jnp.concatenate([M, jnp.ones((2, 4))], axis=0), "TypeError"),
    "concatenate ranks": (lambda: jnp.concatenate([X, M]), "TypeError"),
    "concatenate array": (lambda: jnp.concatenate(X, X), "ValueError"),
    "concatenate nothing": (lambda: jnp.concatenate([]), "ValueError"),
    "stack shapes": (lambda: jnp.stack([X, jnp.ones(4)]), "ValueError"),
    "reshape size": (lambda: X.reshape(2, 2), "TypeError"),
    "reshape two unknown": (lambda: M.reshape(-1, -1), "TypeError"),
    "transpose axes": (lambda: jnp.transpose(M, (0, 0)), "TypeError"),
    "transpose count": (lambda: jnp.transpose(M, (0, 1, 2)), "ValueError"),
    "squeeze": (lambda: jnp.squeeze(M, 0), "ValueError"),
    "expand_dims": (lambda: jnp.expand_dims(X, 5), "ValueError"),
    "sum axis": (lambda: jnp.sum(X, axis=2), "ValueError"),
    "sum axis str": (lambda: jnp.sum(X, axis="x"), "TypeError"),
    "argmax axis": (lambda: jnp.argmax(M, axis=3), "ValueError"),
    "broadcast_to": (lambda: jnp.broadcast_to(X, (2, 4)), "ValueError"),
    "list as an array": (lambda: jnp.sin([1.0, 2.0]), "TypeError"),
    "sum of a list": (lambda: jnp.sum([1.0, 2.0]), "TypeError"),
    "None as an array": (lambda: jnp.sin(None), "TypeError"),
    "str as an array": (lambda: jnp.add(X, "a"), "TypeError"),
    "object as an array": (lambda: jnp.asarray(Box()), "TypeError"),
    "ragged list": (lambda: jnp.array([[1, 2], [3]]), "ValueError"),
    "list with None": (lambda: jnp.array([1, None]), "ValueError"),
    "array of str": (lambda: jnp.array("abc"), "TypeError"),
    "dtype unknown": (lambda: jnp.zeros(3, "flot32"), "TypeError"),
    "dtype object": (lambda: jnp.zeros(3, object), "TypeError"),
    "astype str": (lambda: X.astype("str"), "TypeError"),
    "negative shape": (lambda: jnp.zeros(-1), "TypeError"),
    "float shape": (lambda: jnp.zeros((2.0, 3)), "TypeError"),
    "str shape": (lambda: jnp.zeros("3"), "TypeError"),
    "nested shape": (lambda: jnp.zeros(((2, 3),)), "TypeError"),
    "split sections": (lambda: jnp.split(X, 2), "ValueError"),
    "big int": (lambda: jnp.array(2**40), "OverflowError"),
    "shift floats": (lambda: X << 1, "TypeError"),
    "mod of complex": (lambda: (X + 1j) % 2, "TypeError"),
    "bool minus": (lambda: jnp.array([True]) - jnp.array([True]), "TypeError"),
    "neg bool": (lambda: -jnp.array([True]), "TypeError"),
    "bitwise floats": (lambda: X & X, "TypeError"),
    "take mode": (lambda: jnp.take(X, 1, mode="bad"), "ValueError"),
    "pad mode": (lambda: jnp.pad(X, 1, mode="bad"), "NotImplementedError"),
    "sort axis": (lambda: jnp.sort(X, axis=3), "ValueError"),
    "cumsum axis": (lambda: jnp.cumsum(X, axis=3), "ValueError"),
    "clip": (lambda: jnp.clip(X, "a"), "TypeError"),
    "where shapes": (lambda: jnp.where(X > 0, jnp.ones(2), 0.0), "ValueError"),
    "select list": (lambda: jnp.select([X > 0], [X, X]), "ValueError"),
    "inv": (lambda: jnp.linalg.inv(M), "ValueError"),
    "solve": (lambda: jnp.linalg.solve(jnp.eye(3), jnp.ones(2)), "ValueError"),
    "cholesky": (lambda: jnp.linalg.cholesky(M), "ValueError"),
    "eigh": (lambda: jnp.linalg.eigh(X), "TypeError"),
    "norm ord": (lambda: jnp.linalg.norm(M, ord="bad"), "ValueError"),
    "fft axis": (lambda: jnp.fft.fft(X, axis=2), "ValueError"),
    "out argument": (lambda: jnp.add(X, X, out=np.ones(3)), "NotImplementedError"),
    "at add shape": (lambda: X.at[0].set(jnp.ones(2)), "ValueError"),
    "at call": (lambda: X.at(0), "TypeError"),
    "at set mask": (
        lambda: jit(lambda x: x.at[x > 0].set(jnp.ones(2)), X),
        "NonConcreteBooleanIndexError",
    ),
    "bool of array": (lambda: bool(X), "ValueError"),
    "int of array": (lambda: int(X), "TypeError"),
    "attribute": (lambda: X.sums(), "AttributeError"),
    "jnp attribute": (lambda: jnp.sine(X), "AttributeError"),
    "lax attribute": (lambda: lax.foo(X), "AttributeError"),
    "jax attribute": (lambda: jax.vmapp(X), "AttributeError"),
    # lax
    "lax.add shapes": (lambda: lax.add(M, X), "TypeError"),
    "lax.add dtypes": (lambda: lax.add(X, I), "TypeError"),
    "lax.dot": (lambda: lax.dot(M, M), "ValueError"),
    "dot_general": (lambda: lax.dot_general(M, M, (((1,), (0,)), ((), ()))), "TypeError"),
    "conv": (
        lambda: lax.conv(jnp.ones((1, 3, 8, 8)), jnp.ones((5, 2, 2, 2)), (1, 1), "SAME"),
        "ValueError",
    ),
    "conv padding": (
        lambda: lax.conv(jnp.ones((1, 3, 8, 8)), jnp.ones((5, 3, 2, 2)), (1, 1), "BAD"),
        "RuntimeError",
    ),
    "dynamic_slice": (lambda: lax.dynamic_slice(X, (0, 0), (1,)), "ValueError"),
    "dynamic_slice too large": (lambda: lax.dynamic_slice(X, (0,), (5,)), "TypeError"),
    "broadcast_in_dim": (lambda: lax.broadcast_in_dim(X, (2, 4), (1,)), "TypeError"),
    "reduce_window": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1,), "VALID"),
        "TypeError",
    ),
    "gather": (lambda: lax.gather(X, I, None, (1,)), "TypeError"),
    "select": (lambda: lax.select(X > 0, X, jnp.ones(2)), "TypeError"),
    "top_k too many": (lambda: lax.top_k(X, 5), "ValueError"),
    "psum unbound": (lambda: lax.psum(X, "i"), "NameError"),
    "cond branches": (lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0), "TypeError"),
    "cond dtypes": (lambda: lax.cond(True, lambda x: x, lambda x: 1, 1.0), "TypeError"),
    "cond pred": (lambda: lax.cond(X, lambda x: x, lambda x: x, 1.0), "TypeError"),
    "cond not callable": (lambda: lax.cond(True, 1.0, 2.0), "TypeError"),
    "cond args": (lambda: lax.cond(True, lambda: 1, lambda: 2, 3), "TypeError"),
    "switch none": (lambda: lax.switch(0, []), "ValueError"),
    "switch index": (lambda: lax.switch(0.5, [lambda: 1]), "TypeError"),
    "while tree": (lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: c[0], (0,)), "TypeError"),
    "while cond": (lambda: lax.while_loop(lambda c: c, lambda c: c + 1, 0), "TypeError"),
    "fori carry": (lambda: lax.fori_loop(0, 3, lambda i, c: (c, c), 0), "TypeError"),
    "fori args": (lambda: lax.fori_loop(0, 3, lambda c: c, 0), "TypeError"),
    "scan carry shape": (
        lambda: lax.scan(lambda c, x: (jnp.append(c, x), x), jnp.zeros(1), X),
        "TypeError",
    ),
    "scan no pair": (lambda: lax.scan(lambda c, x: c, 0.0, X), "TypeError"),
    "scan lengths": (lambda: lax.scan(lambda c, x: (c, x), 0.0, (X, jnp.ones(4))), "ValueError"),
    "scan length given": (lambda: lax.scan(lambda c, x: (c, x), 0.0, X, length=5), "ValueError"),
    "scan scalar": (lambda: lax.scan(lambda c, x: (c, x), 0.0, 3.0), "ValueError"),
    "scan nothing": (lambda: lax.scan(lambda c, x: (c, x), 0.0), "ValueError"),
    "map": (lambda: lax.map(lambda x: x, 3.0), "ValueError"),
    # transformations
    "grad of a vector": (lambda: jax.grad(lambda x: x)(X), "TypeError"),
    "grad of an int": (lambda: jax.grad(lambda x: x * 2.0)(3), "TypeError"),
    "grad of a tuple": (lambda: jax.grad(lambda x: (x, x))(1.0), "TypeError"),
    "grad of complex": (lambda: jax.grad(lambda x: x)(1j), "TypeError"),
    "grad argnums": (lambda: jax.grad(lambda x: x, argnums=1)(1.0), "TypeError"),
    "grad no result": (lambda: jax.grad(lambda x: None)(1.0), "TypeError"),
    "grad has_aux": (lambda: jax.grad(lambda x: x, has_aux=True)(1.0), "TypeError"),
    "grad without has_aux": (lambda: jax.grad(lambda x: (x, 1))(1.0), "TypeError"),
    "grad no argument": (lambda: jax.grad(lambda x: x)(), "TypeError"),
    "grad of a call": (lambda: jax.grad(jnp.sin(1.0)), "TypeError"),
    "grad of a while with effects": (
        lambda: jax.grad(
            lambda x: lax.while_loop(
                lambda c: c[0] < 3,
                lambda c: (io_callback(lambda i: i + 1, c[0], c[0]), c[1] * 2),
                (jnp.int32(0), x),
            )[1]
        )(1.0),
        "NotImplementedError",
    ),
    "grad of a callback": (
        lambda: jax.grad(lambda x: jax.pure_callback(np.sin, x, x))(1.0),
        "ValueError",
    ),
    "jvp tangents": (lambda: jax.jvp(jnp.sin, (1.0,), (1,)), "TypeError"),
    "jvp count": (lambda: jax.jvp(jnp.sin, (1.0,), (1.0, 1.0)), "TypeError"),
    "jvp no tuple": (lambda: jax.jvp(jnp.sin, 1.0, 1.0), "TypeError"),
    "vjp cotangent": (lambda: jax.vjp(jnp.sin, 1.0)[1](X), "ValueError"),
    "vjp tree": (lambda: jax.vjp(lambda x: (x, x), 1.0)[1](1.0), "ValueError"),
    "vmap sizes": (lambda: jax.vmap(jnp.add)(X, jnp.ones(4)), "ValueError"),
    "vmap scalar": (lambda: jax.vmap(jnp.sin)(1.0), "ValueError"),
    "vmap axis": (lambda: jax.vmap(jnp.sin, in_axes=2)(X), "ValueError"),
    "vmap in_axes count": (lambda: jax.vmap(jnp.add, in_axes=(0,))(X, X), "ValueError"),
    "vmap all None": (lambda: jax.vmap(lambda x: x, in_axes=None)(X), "ValueError"),
    "vmap out_axes": (lambda: jax.vmap(lambda x: x, out_axes=(0, 0))(X), "ValueError"),
    "vmap control flow": (
        lambda: jax.vmap(lambda x: x if x > 0 else -x)(X),
        "TracerBoolConversionError",
    ),
    "vmap callback": (
        lambda: jax.vmap(lambda x: jax.pure_callback(np.sin, x, x))(X),
        "NotImplementedError",
    ),
    "jit static unhashable": (
        lambda: jit(lambda x, c: x, 1.0, [1], static_argnums=1),
        "ValueError",
    ),
    "jit static array": (lambda: jit(lambda x, n: x, 1.0, X, static_argnums=1), "ValueError"),
    "jit static name": (lambda: jit(lambda x, n: x, 1.0, n=X, static_argnames="n"), "TypeError"),
    "jit typo": (lambda: jit(lambda x, n: x, 1.0, 2, static_argnames="m"), "ValueError"),
    "jit argnums": (lambda: jit(lambda x: x, 1.0, static_argnums=3), "ValueError"),
    "jit str": (lambda: jit(lambda x, mode: x, 1.0, "fast"), "TypeError"),
    "jit object": (lambda: jit(lambda x, o: x, 1.0, Box()), "TypeError"),
    "jit returns str": (lambda: jit(lambda x: "a", 1.0), "TypeError"),
    "jit returns object": (lambda: jit(lambda x: Box(), 1.0), "TypeError"),
    "jit args": (lambda: jit(lambda x: x), "TypeError"),
    "jit many args": (lambda: jit(lambda x: x, 1, 2), "TypeError"),
    "jit keyword": (lambda: jit(lambda x: x, 1, y=2), "TypeError"),
    "jit not callable": (lambda: jax.jit(3)(1), "TypeError"),
    "jit donate": (lambda: jit(lambda x: x, 1.0, donate_argnums=3), "ValueError"),
    "leak": (
        lambda: (lambda l: (jit(lambda x: l.append(x), 1.0), l[0] + 1))([]),
        "UnexpectedTracerError",
    ),
    "deleted": (lambda: (lambda x: (x.delete(), x + 1))(jnp.ones(3)), "RuntimeError"),
    "donated": (
        lambda: (lambda x: (jit(lambda x: x + 1, x, donate_argnums=0), x + 1))(jnp.ones(3)),
        "RuntimeError",
    ),
    "checkpoint": (lambda: jax.checkpoint(3)(1), "TypeError"),
    "custom_jvp no rule": (
        lambda: jax.jvp(jax.custom_jvp(lambda x: x), (1.0,), (1.0,)),
        "AttributeError",
    ),
    "custom_vjp no rule": (lambda: jax.grad(jax.custom_vjp(lambda x: x))(1.0), "AttributeError"),
    "custom_vjp bwd count": (lambda: jax.grad(counted)(1.0), "TypeError"),
    "custom_vjp jvp": (lambda: jax.jvp(reverse, (1.0,), (1.0,)), "TypeError"),
    "jacfwd": (lambda: jax.jacfwd(lambda x: x)(I), "TypeError"),
    "hessian": (lambda: jax.hessian(lambda x: x)("a"), "TypeError"),
    "linearize": (lambda: jax.linearize(jnp.sin, "a"), "TypeError"),
    "eval_shape": (lambda: jax.eval_shape(jnp.sin, "a"), "TypeError"),
    "tree map": (lambda: jax.tree.map(lambda x, y: x, (1, 2), (1, 2, 3)), "ValueError"),
    "tree map keys": (lambda: jax.tree.map(lambda x, y: x, {"a": 1}, {"b": 1}), "ValueError"),
    "unflatten": (lambda: jax.tree.unflatten(jax.tree.structure((1, 2)), [1]), "ValueError"),
    # random
    "random no key": (lambda: random.normal((3,)), "TypeError"),
    "random int key": (lambda: random.normal(0, (3,)), "TypeError"),
    "random shape float": (lambda: random.normal(KEY, 3.0), "TypeError"),
    "random keys": (lambda: random.normal(random.split(KEY), (3,)), "ValueError"),
    "random dtype": (lambda: random.normal(KEY, (3,), int), "ValueError"),
    "random key float": (lambda: random.key(1.5), "TypeError"),
    "split float": (lambda: random.split(KEY, 1.5), "TypeError"),
    "choice": (lambda: random.choice(KEY, X, (5,), replace=False), "ValueError"),
    "choice p": (lambda: random.choice(KEY, X, p=jnp.ones(2)), "ValueError"),
    "key arithmetic": (lambda: KEY + 1, "TypeError"),
    "randint dtype": (lambda: random.randint(KEY, (3,), 0, 3, float), "TypeError"),
    "randint args": (lambda: random.randint(KEY, (3,)), "TypeError"),
    "seed": (lambda: random.key("a"), "TypeError"),
    # devices, nn, others
    "device": (lambda: jax.devices("gpu2"), "RuntimeError"),
    "device_put": (lambda: jax.device_put(X, "cpu"), "ValueError"),
    "device_put str": (lambda: jax.device_put("a"), "TypeError"),
    "mesh": (lambda: jax.make_mesh((64,), ("x",)), "ValueError"),
    "mesh names": (lambda: jax.make_mesh((2, 2), ("x",)), "ValueError"),
    "spec": (
        lambda: jax.device_put(X, jax.NamedSharding(jax.make_mesh((2,), ("x",)), jax.P("y"))),
        "ValueError",
    ),
    "spec size": (
        lambda: jax.device_put(X, jax.NamedSharding(jax.make_mesh((2,), ("x",)), jax.P("x"))),
        "ValueError",
    ),
    "spec rank": (
        lambda: jax.device_put(X, jax.NamedSharding(jax.make_mesh((2,), ("x",)), jax.P(None, "x"))),
        "ValueError",
    ),
    "pmap": (lambda: jax.pmap(jnp.sin)(jnp.ones(64)), "ValueError"),
    "softmax axis": (lambda: jax.nn.softmax(X, axis=3), "ValueError"),
    "one_hot": (lambda: jax.nn.one_hot(I, "a"), "TypeError"),
    "dot_product_attention": (lambda: jax.nn.dot_product_attention(M, M, M), "ValueError"),
    "config": (lambda: jax.config.update("jax_enable_x65", True), "AttributeError"),
    "config value": (lambda: jax.config.update("jax_enable_x64", "maybe"), "ValueError"),
    "debug.print": (lambda: jax.debug.print("{} {}", 1), "IndexError"),
    "debug.print f": (lambda: jit(lambda x: jax.debug.print(f"{x}", x), 1.0), "ValueError"),
    "pure_callback shape": (
        lambda: jit(lambda x: jax.pure_callback(lambda x: np.ones(4, np.float32), x, x), X),
        "JaxRuntimeError",
    ),
    "interp": (lambda: jnp.interp(X, X, jnp.ones(2)), "ValueError"),
    "polyfit": (lambda: jnp.polyfit(X, jnp.ones(2), 1), "TypeError"),
    "convolve": (lambda: jnp.convolve(M, X), "ValueError"),
    "vectorize": (
        lambda: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(X, jnp.ones(4)),
        "ValueError",
    ),
    "searchsorted": (lambda: jnp.searchsorted(M, X), "ValueError"),
    "histogram": (lambda: jnp.histogram(X, bins="a"), "NotImplementedError"),
    "meshgrid": (lambda: jnp.meshgrid(X, indexing="zz"), "ValueError"),
    "trace": (lambda: jnp.trace(X), "ValueError"),
    "outer": (lambda: jnp.cross(jnp.ones(4), jnp.ones(4)), "ValueError"),
    "roll": (lambda: jnp.roll(X, 1, axis=3), "ValueError"),
    "segment_sum": (
        lambda: jit(lambda x, i: jax.ops.segment_sum(x, i), X, I),
        "ConcretizationTypeError",
    ),
    "bincount": (lambda: jit(lambda x: jnp.bincount(x), I), "ConcretizationTypeError"),
    "ffi": (
        lambda: jax.ffi.ffi_call("nothing", jax.ShapeDtypeStruct((3,), jnp.float32))(X),
        "JaxRuntimeError",
    ),
    "minimize": (
        lambda: jax.scipy.optimize.minimize(lambda x: x.sum(), X, method="none"),
        "ValueError",
    ),
    "shard_map": (lambda: mapped(jnp.sin)(X), "ValueError"),
    "shard_map axis": (lambda: mapped(lambda x: lax.psum(x, "y"))(jnp.ones(2)), "NameError"),
    "checkpoint_policies": (lambda: jax.checkpoint_policies.nothing(), "AttributeError"),
}
PACKAGE = re.escape(os.path.dirname(jax.__file__))
OURS = re.compile(rf"teucer\._|{PACKAGE}/[\w/]+\.py|\(C\d\)")
# A quotation, a number, a call, an argument or a name of ours.
NAMED = re.compile(r"['\"`(\[<]|\d|argument|got |jnp\.|lax\.")


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name):
    call, error = MISTAKES[name]
    with pytest.raises(Exception, match=NAMED) as caught:
        call()
    assert type(caught.value).__name__ == error and not type(caught.value).__module__.startswith(
        "teucer._"
    )
    assert not OURS.search(str(caught.value))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [frame for frame in frames if is_internal(frame.filename)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "lax.add(jnp.ones((2, 3)), jnp.ones(4))",
        "jax.tree.map(max, (1, 2), (1, 2, 3))",
        "jax.jit(lambda x: x, static_argnames='typo')",
        "jnp.zeros(-1)",
    ],
)
def test_what_python_prints_shows_the_users_line_alone(line, tmp_path):
    (tmp_path / "program.py").write_text(
        f"import teucer as jax\nfrom teucer import lax, numpy as jnp\n\n{line}\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert re.findall(r'File "(.*)", line (\d+)', done.stderr) == [
        (str(tmp_path / "program.py"), "4")
    ], done.stderr
