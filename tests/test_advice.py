"""What errors tell newcomers to do."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest

import teucer as jax
from teucer import numpy as jnp


@dataclasses.dataclass
class Model:
    w: float


class Net:
    @functools.partial(jax.jit)
    def call(self, x: Any) -> Any:
        return x


CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "text in a tree": (
        lambda: jax.grad(lambda p: p["w"] ** 2)({"w": 1.0, "name": "a"}),
        TypeError,
        "path: ['name']",
    ),
    "text in a tree under jit": (
        lambda: jax.jit(lambda p: p["w"] ** 2)({"w": 1.0, "name": "a"}),
        TypeError,
        "Keep text out of the tree",
    ),
    "gradient by a dataclass": (
        lambda: jax.grad(lambda m: m.w)(Model(1.0)),
        TypeError,
        "decorate Model with jax.tree_util.register_dataclass",
    ),
    "dataclass under jit": (
        lambda: jax.jit(lambda m: m.w)(Model(1.0)),
        TypeError,
        "decorate Model with jax.tree_util.register_dataclass",
    ),
    "loss and aux": (lambda: jax.grad(lambda x: (x, x))(1.0), TypeError, "has_aux=True"),
    "three outputs": (lambda: jax.grad(lambda x: (x,) * 3)(1.0), TypeError, "Return one number"),
    "jit on a method": (lambda: Net().call(1.0), TypeError, "jax.jit(obj.method)"),
    "platform as a device": (
        lambda: jax.device_put(1.0, "cpu"),
        ValueError,
        'jax.devices("cpu")',
    ),
    "no plugin": (lambda: jax.devices("tpu"), RuntimeError, 'pip install "teucer[tpu]"'),
    "policy by name": (
        lambda: jax.checkpoint(lambda x: x, policy="dots"),  # type: ignore[arg-type]
        TypeError,
        "jax.checkpoint_policies",
    ),
    "softmax": (lambda: jnp.soft_max, AttributeError, "jax.nn.softmax"),
    "random": (lambda: jnp.random, AttributeError, "jax.random"),
    "loadtxt": (lambda: jnp.loadtxt, AttributeError, "jnp.asarray(numpy.loadtxt"),
}


@pytest.mark.parametrize("name", CASES)
def test_errors_say_what_to_do(name: str) -> None:
    mistake, kind, told = CASES[name]
    with pytest.raises(kind) as caught:
        mistake()
    assert told in str(caught.value)


def test_other_errors_have_no_advice() -> None:
    with pytest.raises(AttributeError) as caught:
        jnp.nosuch  # noqa: B018
    assert str(caught.value) == "module 'teucer.numpy' has no attribute 'nosuch'"
