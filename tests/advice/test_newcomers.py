"""Mistakes that newcomers make: each error says what to do, leads to the guide, and shows the
user's frames alone."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._advice import remedies
from teucer._base import tracebacks
from teucer._base.source import is_internal

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "errors.md"
x, M, K = jnp.arange(3.0), jnp.ones((2, 3)), jax.random.key(0)
random: Any = jax.random
nn: Any = jax.nn
a: Any = x
ANY: Any = None


@dataclasses.dataclass
class Model:
    w: Any


class Net:
    @functools.partial(jax.jit)
    def call(self, x: Any) -> Any:
        return x


def same(m: Any) -> Any:
    return m


def second(c: Any, x: Any) -> Any:
    return c, x


def static(f: Callable[..., Any], value: Any) -> Any:
    return jax.jit(lambda x, n: f(x), static_argnums=1)(x, value)


def traced(f: Callable[..., Any], *args: Any) -> Any:
    return jax.jit(f)(*args)


REGISTER, TEXT = "register_dataclass", "Keep text out of the tree"
# Of each: the mistake, and a part of what the error says to do.
CASES: dict[str, tuple[Callable[[], object], str]] = {
    # values that are no arrays
    "text, grad": (lambda: jax.grad(lambda p: p["w"])({"w": 1.0, "n": "a"}), "path: ['n']"),
    "text, jit": (lambda: traced(lambda p: p["w"], {"w": 1.0, "n": "a"}), TEXT),
    "text, vmap": (lambda: jax.vmap(lambda p: p["w"])({"w": x, "n": "a"}), TEXT),
    "text, scan": (lambda: lax.scan(second, {"w": 1.0, "n": "a"}, x), TEXT),
    "text, vjp": (lambda: jax.vjp(lambda p: p["w"], {"w": 1.0, "n": "a"}), TEXT),
    "text, result": (lambda: traced(lambda x: {"a": "b"}, 1.0), TEXT),
    "dataclass, grad": (lambda: jax.grad(lambda m: m.w)(Model(1.0)), REGISTER),
    "dataclass, jit": (lambda: traced(lambda m: m.w, Model(1.0)), REGISTER),
    "dataclass, vmap": (lambda: jax.vmap(lambda m: m.w)(Model(x)), REGISTER),
    "dataclass, scan": (lambda: lax.scan(second, Model(1.0), x), REGISTER),
    "dataclass, cond": (lambda: lax.cond(True, same, same, Model(1.0)), REGISTER),
    "dataclass, while": (lambda: lax.while_loop(lambda m: False, same, Model(1.0)), REGISTER),
    "dataclass, fori": (lambda: lax.fori_loop(0, 2, lambda i, m: m, Model(1.0)), REGISTER),
    "dataclass, result": (lambda: traced(Model, 1.0), REGISTER),
    "mode as text": (lambda: traced(lambda x, mode: x, x, "train"), "static_argnames"),
    "method": (lambda: Net().call(1.0), "jax.jit(obj.method)"),
    "sum of a list": (lambda: jnp.sum(ANY or [1.0]), "jnp.asarray"),
    "array of text": (lambda: jnp.array(["red", "blue"]), "numbers of one dtype"),
    "ragged": (lambda: jnp.array([[1], [1, 2]]), "rows of one length"),
    "called too early": (lambda: jax.grad(jnp.sum(x)), "Expected a callable value"),
    # derivatives
    "loss and aux": (lambda: jax.grad(lambda x: (x, x))(1.0), "has_aux=True"),
    "loss and metrics": (lambda: jax.value_and_grad(lambda x: (x, {"a": x}))(1.0), "has_aux=True"),
    "no aux": (lambda: jax.grad(lambda x: x, has_aux=True)(1.0), "it returns (output, auxiliary"),
    "three outputs": (lambda: jax.grad(lambda x: (x,) * 3)(1.0), "Return one number"),
    "loss of None": (lambda: jax.grad(lambda x: None)(1.0), "Return one number"),
    "vector loss": (lambda: jax.grad(lambda x: x)(x), "jax.jacrev"),
    "by an integer": (lambda: jax.grad(lambda x: x)(3), "allow_int"),
    "policy by name": (
        lambda: jax.checkpoint(lambda x: x, policy=ANY or "dots"),
        "jax.checkpoint_policies",
    ),
    "square, transposed": (
        lambda: jax.linear_transpose(lambda x: x * x, 1.0)(1.0),
        "mul is not linear",
    ),
    "sine, transposed": (lambda: jax.linear_transpose(jnp.sin, 1.0)(1.0), "sin is not linear"),
    # devices
    "platform as device": (lambda: jax.device_put(1.0, "cpu"), 'jax.devices("cpu")'),
    "gpu": (lambda: jax.devices("gpu"), 'pip install "teucer[cuda13]"'),
    "cuda": (lambda: jax.devices("cuda"), 'pip install "teucer[cuda13]"'),
    "tpu": (lambda: jax.devices("tpu"), 'pip install "teucer[tpu]"'),
    # static arguments
    "static list": (lambda: static(same, [1, 2]), "tuple(x)"),
    "static dict": (lambda: static(same, {"a": 1}), "hashable in the place of the dict"),
    "static array": (lambda: static(same, np.ones(3)), "an ordinary one"),
    "static object": (lambda: static(same, Model(1)), "frozen=True"),
    # names
    "softmax": (lambda: jnp.soft_max, "jax.nn.softmax"),
    "relu": (lambda: jnp.relu, "jax.nn.relu"),
    "numpy.random": (lambda: jnp.random, "jax.random"),
    "loadtxt": (lambda: jnp.loadtxt, "jnp.asarray(numpy.loadtxt"),
    "randn": (lambda: random.randn, "jax.random.normal(key"),
    "rand": (lambda: random.rand, "jax.random.uniform(key"),
    "seed": (lambda: random.seed, "jax.random.key(seed)"),
    "shuffle": (lambda: random.shuffle, "jax.random.permutation"),
    "cat": (lambda: jnp.cat, "jnp.concatenate"),
    "arrange": (lambda: jnp.arrange, "jnp.arange?"),
    "maximun": (lambda: jnp.maximun, "jnp.maximum?"),
    "rellu": (lambda: nn.rellu, "jax.nn.relu?"),
    "layers": (lambda: nn.Linear, "flax.nnx"),
    "optim": (lambda: getattr(jax, "optim"), "optax"),  # noqa: B009
    "no_grad": (lambda: getattr(jax, "no_grad"), "leave it out"),  # noqa: B009
    "grads": (lambda: getattr(jax, "grads"), "jax.grad?"),  # noqa: B009
    "array": (lambda: getattr(jax, "array"), "jnp.array"),  # noqa: B009
    "tree_map": (lambda: getattr(jax, "tree_map"), "jax.tree.map"),  # noqa: B009
    "for_loop": (lambda: lax.for_loop, "jax.lax.fori_loop"),
    "matmul of lax": (lambda: lax.matmul, "jnp.matmul?"),
    "inverse": (lambda: jnp.linalg.inverse, "jnp.linalg.inv"),
    "permute": (lambda: a.permute(0), "x.transpose"),
    "unsqueeze": (lambda: a.unsqueeze(0), "jnp.expand_dims"),
    "cuda()": (lambda: a.cuda(), "jax.device_put"),
    "numpy()": (lambda: a.numpy(), "numpy.asarray(x)"),
    "detach": (lambda: a.detach(), "jax.lax.stop_gradient"),
    "backward": (lambda: a.backward(), "jax.grad(f)(x)"),
    "append": (lambda: a.append(1), "jnp.append"),
    "to": (lambda: a.to("cpu"), "jax.device_put"),
    "dim()": (lambda: a.dim(), "x.ndim"),
    "expand": (lambda: a.expand(3, 3), "jnp.broadcast_to"),
    "tanh()": (lambda: a.tanh(), "jnp.tanh(x)"),
    "shpae": (lambda: a.shpae, "x.shape?"),
    "method of a traced value": (lambda: traced(lambda a: a.unsqueeze(0), x), "jnp.expand_dims"),
    "option": (lambda: jax.config.update("enable_x64", True), "'jax_enable_x64'?"),
    # arguments
    "dim": (lambda: a.sum(dim=0), "axis=?"),
    "dim of jnp": (lambda: jnp.sum(x, dim=0), "axis=?"),
    "dim of softmax": (lambda: nn.softmax(x, dim=0), "axis=?"),
    "keepdim": (lambda: a.mean(0, keepdim=True), "keepdims=?"),
    "size": (lambda: random.normal(K, size=(3,)), "shape=?"),
    "low": (lambda: random.uniform(K, (3,), low=0), "minval=?"),
    "mean": (lambda: random.normal(K, (3,), mean=1), "mean + std *"),
    "reverse": (lambda: jnp.sort(x, reverse=True), "descending=?"),
    "axes": (lambda: jnp.sum(x, axes=0), "axis=?"),
    "too few": (lambda: random.randint(K, (3,)), "randint takes: key, shape, minval, maxval"),
    "concatenate of two": (lambda: jnp.concatenate(a, a), "jnp.concatenate([x, y])"),
    "list and array": (lambda: a + [1, 2, 3], "jnp.asarray"),
    # shapes, axes, dtypes, indices
    "broadcasting": (lambda: x + jnp.ones(4), "they must be equal, or 1"),
    "zeros(2, 3)": (lambda: jnp.zeros(2, ANY or 3), "zeros((2, 3))"),
    "size of a float": (lambda: jnp.zeros(ANY or 3.0), "sizes are integers"),
    "power": (lambda: jnp.arange(3) ** -1, "floating dtype"),
    "too large": (lambda: jnp.array(2**40), "jax_enable_x64"),
    "assignment": (lambda: a.__setitem__(0, 1.0), "x.at[idx].set(y)"),
    "at(0)": (lambda: a.at(0), "x.at[i].set(value)"),
    "at[0] + 1": (lambda: a.at[0] + 1, "x.at[i].add(value)"),
    "list as index": (lambda: a[[0, 1]], "arr[array(seq)]"),
    "truth": (lambda: bool(x > 0), "a.any() or a.all()"),
    # keys
    "no key": (lambda: random.normal((3,)), "jax.random.key(0)"),
    "seed as key": (lambda: random.normal(0, (3,)), "jax.random.key(0)"),
    "several keys": (lambda: random.normal(jax.random.split(K), (3,)), "jax.vmap"),
    "too many drawn": (lambda: random.choice(K, x, (5,), replace=False), "with replacement"),
    # traced values
    "if": (lambda: traced(lambda x: x if x > 0 else -x, 1.0), "jnp.where or lax.cond"),
    "float": (lambda: traced(lambda x: float(x), 1.0), "x.astype(float)"),
    "range": (lambda: traced(lambda n: list(range(n)), 3), "lax.fori_loop"),
    "shape": (lambda: traced(lambda n: jnp.zeros(n), 3), "static_argnums"),
    "NumPy": (lambda: traced(lambda x: np.sin(x), x), "of the same name in jnp"),
    "mask": (lambda: traced(lambda x: x[x > 0], x), "jnp.where(mask, x, other)"),
    # loops, trees, meshes
    "scan's body": (lambda: lax.scan(lambda c, x: c + x, 0.0, x), "Return (carry, y)"),
    "branches": (lambda: lax.cond(True, lambda: 1.0, lambda: 1), "all output types match"),
    "trees": (lambda: jax.tree.map(max, {"a": 1}, {"b": 2}), "must have the nodes of tree"),
    "None in a tree": (lambda: jax.tree.map(max, {"a": 1.0}, None), "is_leaf="),
    "mesh": (lambda: jax.make_mesh((64,), ("x",)), "JAX_NUM_CPU_DEVICES=64"),
    "psum": (lambda: lax.psum(x, "batch"), "vmap(..., axis_name=...)"),
    "donated": (lambda: _donated() + 1, "deleted"),
    "print": (lambda: jax.debug.print("{x}", 1.0), "is given 1 by position"),
}  # fmt: skip


def _donated() -> Any:
    y = jnp.ones(3)
    jax.jit(lambda x: x + 1, donate_argnums=0)(y)
    return y


def sections() -> set[str]:
    return {remedies.slug(head) for head in re.findall(r"^## (.*)", GUIDE.read_text(), re.M)}


@pytest.mark.parametrize("name", CASES)
def test_errors_say_what_to_do(name: str) -> None:
    mistake, told = CASES[name]
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the text is asked for below
        mistake()
    err = caught.value
    frames = traceback.extract_tb(err.__traceback__)
    assert not [frame for frame in frames if is_internal(frame.filename)]
    tracebacks.treat_uncaught(err)  # as Python and IPython do, where no function of ours was left
    said = "\n".join([str(err), *err.__notes__])
    assert told in said
    (section,) = re.findall(r"^  Explained by: teucer errors (.*)", said, re.M)
    assert section in sections()


def test_there_are_a_hundred() -> None:
    assert len(CASES) >= 100


def test_all_sections_of_the_table_are_in_the_guide() -> None:
    named = {rule.section for rule in remedies._RULES} | set(remedies._CLASSES)
    named |= set(remedies._FALLBACKS.values())
    assert {remedies.slug(section) for section in named} <= sections()


def test_errors_of_users_are_left_alone() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("the shape of my data is wrong")

    for call in (fails, jax.jit(fails), jax.grad(fails)):
        with pytest.raises(ValueError, match="my data") as caught:
            call(1.0)
        tracebacks.treat_uncaught(caught.value)
        assert not any(map(remedies.is_note, getattr(caught.value, "__notes__", ())))


def test_functions_of_users_with_our_names_are_left_alone() -> None:
    def softmax(values: Any) -> Any:
        return values

    with pytest.raises(TypeError) as caught:
        softmax(x, dim=0)  # type: ignore[call-arg]
    tracebacks.treat_uncaught(caught.value)
    assert not hasattr(caught.value, "__notes__")


def test_a_name_that_nothing_is_like_has_no_advice() -> None:
    with pytest.raises(AttributeError) as caught:
        jnp.nosuch  # noqa: B018
    assert str(caught.value) == "module 'teucer.numpy' has no attribute 'nosuch'"
    assert caught.value.__notes__[0] == "  Explained by: teucer errors names"
