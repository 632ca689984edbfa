"""What to do about mistakes that newcomers make. Imported when an error is raised."""

from __future__ import annotations

import dataclasses

# Names that NumPy, PyTorch, TensorFlow or an older JAX have, and what is here.
_NAMES = {
    **dict.fromkeys(
        ("softmax", "soft_max", "log_softmax", "relu", "gelu", "sigmoid", "silu", "softplus")
        + ("elu", "selu", "one_hot", "logsumexp"),
        "The functions of neural networks are in jax.nn: jax.nn.{name}.",
    ),
    **dict.fromkeys(
        ("loadtxt", "genfromtxt", "fromregex"),
        "Read with NumPy, then convert: jnp.asarray(numpy.{name}(...)).",
    ),
    **dict.fromkeys(("savetxt", "memmap"), "Use NumPy for it: numpy.{name} takes these arrays."),
    "randn": "It is jax.random.normal(key, shape); jax.random.key(seed) makes a key.",
    "rand": "It is jax.random.uniform(key, shape); jax.random.key(seed) makes a key.",
    "seed": "There is no global state: jax.random.key(seed) makes a key, which functions take.",
    "manual_seed": "There is no global state: jax.random.key(seed) makes a key.",
    "shuffle": "It is jax.random.permutation(key, x), which returns a shuffled copy.",
    "default_rng": "It is jax.random.key(seed), which random functions take first.",
    "random": "Random numbers are in jax.random, and take a key: jax.random.normal(key, shape).",
    "scipy": "It is jax.scipy.",
    "lax": "It is jax.lax.",
    "special": "It is jax.scipy.special.",
    "nn": "It is jax.nn.",
    "grad": "It is jax.grad.",
    "jit": "It is jax.jit.",
    "vmap": "It is jax.vmap.",
    "tensor": "It is jnp.array, or jnp.asarray for no copy.",
    "cat": "It is jnp.concatenate.",
    "numel": "It is jnp.size.",
    "bmm": "It is jnp.matmul, which takes batches.",
    "mm": "It is jnp.matmul.",
    "array": "It is jnp.array.",
    "no_grad": "Derivatives are taken where jax.grad asks for them: leave it out.",
    "optim": "Optimisers are in the package optax, which runs on Teucer.",
    "optimizers": "They are in the package optax; small ones in jax.example_libraries.optimizers.",
    **dict.fromkeys(
        ("Linear", "Module", "Sequential", "Conv2d", "Dense", "Embedding", "Dropout"),
        "Layers with parameters are in packages: flax.nnx, equinox, haiku; they run on Teucer.",
    ),
    "device": "It is jax.devices(platform)[0].",
    "inverse": "It is jnp.linalg.inv.",
    "for_loop": "It is jax.lax.fori_loop, or jax.lax.scan.",
    "clamp": "It is jnp.clip.",
    "from_numpy": "It is jnp.asarray.",
    "as_tensor": "It is jnp.asarray.",
    "is_tensor": "It is isinstance(x, jax.Array).",
    "backward": "Derivatives are taken of functions: jax.grad(f)(x).",
    "erf": "It is jax.scipy.special.erf, or jax.lax.erf.",
    "matrix": "NumPy advises against matrices: use jnp.array and the operator @.",
}
_SPELLED = {"soft_max": "softmax"}
_PLUGINS = {
    "gpu": "cuda13",
    "cuda": "cuda13",
    "tpu": "tpu",
}


def on_name(name: str) -> str:
    """What to use for a name that `jax.numpy` lacks; empty if no advice is known."""
    text = _NAMES.get(name)
    return f"\n  {text.format(name=_SPELLED.get(name, name))}" if text else ""


def on_value(x: object, path: str = "") -> str:
    """What to do with a value that is not an array."""
    if dataclasses.is_dataclass(x):
        return (
            f"\n  Make the dataclass a pytree: decorate {type(x).__name__} with "
            "jax.tree_util.register_dataclass."
        )
    if path == "self":
        return (
            "\n  The function is a method, and self one of its arguments. Jit the bound method, "
            "jax.jit(obj.method); or mark self as static,\n  functools.partial(jax.jit, "
            "static_argnums=0), if obj never changes; or register its class as a pytree."
        )
    if isinstance(x, str | bytes) and ("[" in path or "." in path):
        return (
            "\n  Keep text out of the tree, or in a field that is static: "
            "jax.tree_util.register_dataclass knows such fields."
        )
    return ""


def on_outputs(count: int) -> str:
    """What to do about a function to differentiate that has several outputs."""
    if count != 2:
        return "\n  Return one number."
    return "\n  If the second output is not to be differentiated, say has_aux=True."


def on_place(where: object) -> str:
    """What a word means that says where a value is to go."""
    if not isinstance(where, str):
        return ""
    return f'\n  A platform is no device: take one of jax.devices("{where}").'


def on_platform(platform: str) -> str:
    """What to install for a platform."""
    extra = _PLUGINS.get(platform)
    return f'\n  Its plugin is not installed: pip install "teucer[{extra}]".' if extra else ""
