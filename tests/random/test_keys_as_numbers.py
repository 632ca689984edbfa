"""The law of typed keys.

Whatever they are given to gives keys, or refuses them; none computes with their words.
"""

import copy
import inspect
import operator
import pickle
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random

KEYS = random.split(random.key(0), 3)
REFUSES = {
    "float": float,
    "int": int,
    "complex": complex,
    "index": operator.index,
    "bool": bool,
    "hash": hash,
    "round": round,
    "add": lambda k: k + 1,
    "radd": lambda k: 1 + k,
    "NumPy + key": lambda k: np.float32(1) + k,
    "neg": operator.neg,
    "abs": abs,
    "less": lambda k: k < k,
    "matmul": lambda k: k @ k,
    "tolist": lambda k: k.tolist(),
    "item": lambda k: k.item(),
    "tobytes": lambda k: k.tobytes(),
    "dlpack": np.from_dlpack,
    "format": lambda k: f"{k:.3f}",
    "astype": lambda k: k.astype("float32"),
    "view": lambda k: k.view("uint32"),
    "array of dtype": lambda k: jnp.array(k, "float32"),
    "where": lambda k: jnp.where(k, 1, 2),
    "sort": lambda k: jnp.sort(k[None]),
    "top_k": lambda k: lax.top_k(k[None], 1),
    "add at": lambda k: k[None].at[0].add(1),
    "index with": lambda k: jnp.arange(3)[k],
    "sum": jnp.sum,
    "angle": jnp.angle,
    "logical_not": jnp.logical_not,
    "ldexp": lambda k: jnp.ldexp(k, 1),
    "convert": lambda k: lax.convert_element_type_p.bind(
        k, new_dtype=np.dtype("float32"), weak_type=False, sharding=None
    ),
}
GIVES_KEYS = {
    "asarray": jnp.asarray,
    "array": jnp.array,
    "list": lambda k: jnp.array([k, k])[0],
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda k: pickle.loads(pickle.dumps(k)),
    "device_get": jax.device_get,
    "concatenate": lambda k: jnp.concatenate([k[None], k[None]])[0],
    "indexed": lambda k: k[None][0],
    "scan": lambda k: lax.scan(lambda c, _: (c, None), k, None, length=2)[0],
    "ravel": lambda k: k.ravel()[0],
}


@pytest.mark.parametrize("name", REFUSES)
def test_what_needs_numbers_refuses_keys(name):
    for key in (KEYS[0], KEYS):
        with pytest.raises((TypeError, ValueError)):
            REFUSES[name](key)


@pytest.mark.parametrize("name", GIVES_KEYS)
def test_what_moves_arrays_gives_keys(name):
    assert GIVES_KEYS[name](KEYS[0]) == KEYS[0]


def test_messages_say_how_to_get_words():
    with pytest.raises(
        TypeError,
        match=r"(?s)typed keys are no numbers, got key<fry> to float32.*jax.random.key_data",
    ):
        REFUSES["convert"](KEYS)
    with pytest.raises(
        TypeError,
        match=r"(?s)view: typed keys are no bits of numbers, got key<fry> as uint32.*key_data",
    ):
        KEYS.view("uint32")
    with pytest.raises(
        TypeError, match=r"(?s)top_k does not order typed keys.*operand: key<fry>\[3\]"
    ):
        lax.top_k(KEYS, 1)


def test_numpy_refuses_keys():
    """Before Python 3.12 NumPy reads the memory of arrays on the CPU and asks nobody: there it
    finds words, as they are."""
    if sys.version_info < (3, 12):
        np.testing.assert_array_equal(np.asarray(KEYS), random.key_data(KEYS))
    else:
        with pytest.raises(
            TypeError,
            match=r"PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data",
        ):
            np.asarray(KEYS)


@pytest.mark.parametrize("module", [jnp, jnp.linalg, jnp.fft, lax], ids=lambda m: m.__name__)
def test_every_function_refuses_keys_or_takes_them(module):
    """No error of a compiler comes out, nor one of an attribute that keys lack."""
    # Their first argument is no array.
    others = {
        "save",
        "savez",
        "fromfile",
        "trim_zeros",
        "conv_general_permutations",
        "all_gather",
        "psum_scatter",
        "psum_scatter_start",
    }
    for name in sorted(set(dir(module)) - others):
        f = getattr(module, name)
        if name[0] != "_" and callable(f) and not inspect.isclass(f):
            for args in (
                (KEYS,),
                (KEYS, KEYS),
                (KEYS, 1),
                (1, KEYS),
                (KEYS[0],),
                (KEYS, KEYS, KEYS),
            ):
                try:
                    f(*args)
                except (
                    TypeError,
                    ValueError,
                    NotImplementedError,
                    IndexError,
                    BufferError,
                    Warning,
                ):
                    pass
                except Exception as err:
                    raise AssertionError(f"{module.__name__}.{name} of {len(args)}") from err
