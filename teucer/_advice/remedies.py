"""What an error is told beside its message: what to do, and the section of the guide.

Loaded when an error is shown. A message that says what to do already is left alone.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

from teucer._advice import mistakes
from teucer._advice.guarding import HOME

OTHERS = "Others"  # the section of messages that have none of their own

# Arguments that NumPy, PyTorch or TensorFlow take by another name.
_ARGUMENTS = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "reverse": "descending",
    "descend": "descending",
    "size": "shape",
    "low": "minval",
    "high": "maxval",
    "input": "a",
    "indices_or_section": "indices_or_sections",
    "unbiased": "ddof",
    "min_": "min",
    "max_": "max",
    "num_samples": "shape",
}
# Arguments for which something else does what is meant.
_INSTEAD = {
    "requires_grad": "No array is marked: jax.grad(f) differentiates the function f.",
    "inplace": "Arrays are immutable: use the result.",
    "generator": "Random functions take a key, jax.random.key(seed), as their first argument.",
    "seed": "Random functions take a key, jax.random.key(seed), as their first argument.",
    "mean": "Shift and scale the result: mean + std * jax.random.normal(key, shape).",
    "loc": "Shift and scale the result: loc + scale * jax.random.normal(key, shape).",
    "std": "Shift and scale the result: mean + std * jax.random.normal(key, shape).",
    "scale": "Shift and scale the result: loc + scale * jax.random.normal(key, shape).",
    "stddev": "Shift and scale the result: mean + stddev * jax.random.normal(key, shape).",
    "order": "Memory has one order; leave it out.",
}
# What methods and attributes of other libraries' arrays are here.
_MEMBERS = {
    "append": "Arrays have a fixed size: jnp.append(x, value), or a list, and jnp.stack once.",
    "extend": "Arrays have a fixed size: jnp.concatenate([x, y]).",
    "backward": "Derivatives are taken of functions: jax.grad(f)(x).",
    "grad": "Derivatives are taken of functions: jax.grad(f)(x).",
    "requires_grad": "No array is marked: jax.grad(f) differentiates the function f.",
    "requires_grad_": "No array is marked: jax.grad(f) differentiates the function f.",
    "detach": "It is jax.lax.stop_gradient(x).",
    "numpy": "It is numpy.asarray(x).",
    "cpu": "It is jax.device_put(x, jax.devices('cpu')[0]).",
    "cuda": "It is jax.device_put(x, jax.devices('gpu')[0]); arrays begin on the first GPU.",
    "to": "x.astype(dtype) converts; jax.device_put(x, device) moves.",
    "type": "It is x.astype(dtype).",
    **dict.fromkeys(("float", "half", "double", "long", "int", "bool"), "It is x.astype(dtype)."),
    "permute": "It is x.transpose(axes).",
    "unsqueeze": "It is jnp.expand_dims(x, axis), or x[:, None].",
    "expand": "It is jnp.broadcast_to(x, shape).",
    "expand_as": "It is jnp.broadcast_to(x, other.shape).",
    "repeat_interleave": "It is jnp.repeat(x, n).",
    "numel": "It is x.size.",
    "dim": "It is x.ndim.",
    "contiguous": "Memory is contiguous: leave it out.",
    "masked_fill": "It is jnp.where(mask, value, x).",
    "gather": "It is jnp.take_along_axis(x, indices, axis).",
    "scatter_": "It is x.at[indices].set(values).",
    "index_select": "It is jnp.take(x, indices, axis).",
    "abs": "It is jnp.abs(x), or abs(x).",
    "exp": "It is jnp.exp(x).",
    "log": "It is jnp.log(x).",
    "sqrt": "It is jnp.sqrt(x).",
    "softmax": "It is jax.nn.softmax(x, axis).",
    "relu": "It is jax.nn.relu(x).",
    "norm": "It is jnp.linalg.norm(x).",
    "matmul": "It is x @ y.",
    "mm": "It is x @ y.",
    "bmm": "It is x @ y, which takes batches.",
    "t": "It is x.T.",
    "chunk": "It is jnp.split(x, n).",
    "fill": "Arrays are immutable: jnp.full_like(x, value).",
    "itemset": "Arrays are immutable: x.at[i].set(value).",
    "tostring": "It is x.tobytes().",
    "block_until_ready": "A traced value is not computed yet: wait for the result of the call.",
}
_ARRAY_CLASSES = r"(?:jaxlib\._jax\.ArrayImpl|ArrayImpl|\w*Tracer|At|Place)"
_EXPLAINED = "  Explained by: teucer errors "
_OURS = ("teucer", "jax")
_MODULES = ("numpy", "random", "nn", "lax", "numpy.linalg", "")


class _Rule(NamedTuple):
    """Messages of a kind. section: of the guide. remedy: what to do, for those whose message does
    not say it."""

    pattern: str
    section: str
    remedy: str | Callable[[re.Match[str], BaseException], str] = ""


def told(err: BaseException) -> list[str]:
    """The notes for an exception: what to do, if its message does not say that; where to read on.

    Empty for exceptions that the user's own code raised, and those that are not about arrays.
    """
    if not (_raised_here(err.__traceback__) or _is_about_arrays(err)):
        return []
    rule, match = _rule_of(err)
    remedy = rule.remedy if isinstance(rule.remedy, str) else rule.remedy(match, err)
    lines = [f"  {line}" for line in remedy.splitlines() if line.strip() not in str(err)]
    return ["\n".join([*lines, f"{_EXPLAINED}{slug(rule.section)}"])]


def is_note(note: str) -> bool:
    """Whether a note is one of `told`."""
    return _EXPLAINED in note


def section_of(err: BaseException) -> str:
    """The section of docs/guide/errors.md that explains an exception.

    >>> section_of(TypeError("add got incompatible shapes for broadcasting: (3,), (4,)."))
    'Shapes'
    """
    return _rule_of(err)[0].section


def slug(section: str) -> str:
    """The name of a section, as the command takes it and as links to it end.

    >>> slug("Static arguments")
    'static-arguments'
    """
    return section.lower().replace(" ", "-")


def _raised_here(traceback: TracebackType | None) -> bool:
    """Whether the innermost frame is one of ours."""
    file = ""
    while traceback is not None:
        file, traceback = traceback.tb_frame.f_code.co_filename, traceback.tb_next
    return file.startswith(HOME)


def _is_about_arrays(err: BaseException) -> bool:
    """Whether an exception that Python or C++ raised in the user's own line is about something of
    ours."""
    if type(err).__name__ in ("JaxRuntimeError", "XlaRuntimeError"):
        return True
    text = str(err)
    if isinstance(err, AttributeError):
        about = rf"^'{_ARRAY_CLASSES}' object|^module '(?:teucer|jax)[.\w]*' has no"
        return bool(re.search(about, text))
    if isinstance(err, ValueError):
        return text.startswith("Non-hashable static arguments")
    found = re.match(r"(\w+)\(\) (?:got an unexpected|missing|takes)", text)
    if isinstance(err, TypeError) and found:
        return _function(found[1], err) is not None
    return bool(isinstance(err, TypeError) and re.search(rf"'{_ARRAY_CLASSES}'", text))


def _rule_of(err: BaseException) -> tuple[_Rule, re.Match[str]]:
    text = str(err)
    named = next((kind.__name__ for kind in type(err).__mro__ if kind.__name__ in _CLASSES), None)
    by_class = next(section for base, section in _FALLBACKS.items() if isinstance(err, base))
    for rule in (_Rule("", named),) if named else (*_RULES, _Rule("", by_class)):
        match = re.search(rule.pattern, text)
        if match is not None:
            return rule, match
    raise AssertionError("the last rule matches all texts")


def _function(name: str, err: BaseException) -> Callable[..., object] | None:
    """The public function that a message names, if the innermost frame can have called it."""
    names = _innermost(err.__traceback__)
    if names is None:
        return None
    values = [names[name]] if name in names else list(names.values())
    for value in values:
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in _OURS:
            for module in _MODULES:
                loaded = sys.modules.get(f"teucer.{module}".rstrip("."))
                found = vars(loaded).get(name) if loaded is not None else None
                if callable(found):
                    return found
        if getattr(value, "__name__", "") == name and _is_ours(value):
            return value
    return None


def _is_ours(value: object) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] in _OURS


def _argument(match: re.Match[str], err: BaseException) -> str:
    function, name = match[1].rpartition(".")[2], match[2]
    found = _function(function, err)
    known = _parameters(found)
    other = _ARGUMENTS.get(name)
    if other is not None and (not known or other in known):
        return f"Did you mean {other}=? {function} takes: {', '.join(known) or other}."
    if name in _INSTEAD and found is not None:
        return _INSTEAD[name]
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"Did you mean {close[0]}=?"
    return f"{function} takes: {', '.join(known)}." if known else ""


def _missing(match: re.Match[str], err: BaseException) -> str:
    known = _parameters(_function(match[1].rpartition(".")[2], err))
    return f"{match[1]} takes: {', '.join(known)}." if known else ""


def _parameters(function: Callable[..., object] | None) -> list[str]:
    if function is None:
        return []
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _member(match: re.Match[str], err: BaseException) -> str:
    name = match[1]
    if name in _MEMBERS:
        return _MEMBERS[name]
    jnp: Any = sys.modules.get("teucer.numpy")
    if jnp is not None and name in jnp.__all__:
        return f"It is a function: jnp.{name}(x)."
    close = difflib.get_close_matches(name, dir(getattr(err, "obj", None)), 1)
    return f"Did you mean x.{close[0]}?" if close and not close[0].startswith("_") else ""


def _name(match: re.Match[str], err: BaseException) -> str:
    place, name = match[1], match[2]
    known = mistakes.on_name(name)
    if known:
        return known.strip()
    home = sys.modules.get("teucer" + place.removeprefix(place.partition(".")[0]))
    for near in (name, *difflib.get_close_matches(name, dir(home), 1, 0.7)):
        for module in (*_MODULES, "tree", "scipy.special"):
            loaded = sys.modules.get(f"teucer.{module}".rstrip("."))
            if loaded is not None and near in dir(loaded) and not (near == name and loaded is home):
                called = f"jax.{module}".rstrip(".").replace("jax.numpy", "jnp")
                return f"Did you mean {called}.{near}?"
    return ""


def _not_an_array(match: re.Match[str], err: BaseException) -> str:
    """Advice on the value itself, which the innermost frame has."""
    names = _innermost(err.__traceback__)
    return mistakes.on_value(names.get("x"), ".").strip() if names is not None else ""


def _innermost(traceback: TracebackType | None) -> dict[str, Any] | None:
    """The names that the innermost frame sees."""
    frame = None
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
    return None if frame is None else {**frame.f_globals, **frame.f_locals}


def _static(match: re.Match[str], err: BaseException) -> str:
    kind = match[1].rpartition(".")[2]
    if kind == "list":
        return "Pass a tuple in the place of the list: tuple(x)."
    if kind in ("dict", "set"):
        return f"Pass what is hashable in the place of the {kind}: tuple(sorted(x)), say."
    if kind in ("ArrayImpl", "ndarray"):
        return "Arrays are no static arguments: pass it as an ordinary one, or close over it."
    return f"Make the class hashable: @dataclasses.dataclass(frozen=True) gives {kind} a hash."


_CLASSES = (
    "TracerBoolConversionError", "TracerArrayConversionError", "TracerIntegerConversionError",
    "NonConcreteBooleanIndexError", "ConcretizationTypeError", "UnexpectedTracerError",
    "KeyReuseError", "InconclusiveDimensionOperation",
)  # fmt: skip
_RULES = (
    _Rule(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'", "Arguments", _argument),
    _Rule(r"([\w.<>]+)\(\) missing \d+ required", "Arguments", _missing),
    _Rule(r"([\w.<>]+)\(\) takes (?:from )?\d+", "Arguments", _missing),
    _Rule(rf"'{_ARRAY_CLASSES}' object has no attribute '(\w+)'", "Names", _member),
    _Rule(r"module '([\w.]+)' has no attribute '(\w+)'$", "Names", _name),
    _Rule(r"has no attribute|Unrecognized config option", "Names"),
    _Rule(r"'At' object (?:is not callable|does not support)", "Indices",
          "Write x.at[i].set(value), and use the result: x = x.at[i].set(value)."),
    _Rule(r"unsupported operand type.*'Place'", "Indices",
          "x.at[i] is a place: x.at[i].get() reads it, x.at[i].add(value) adds to it."),
    _Rule(r"Non-hashable static arguments[^<]*<class '([\w.]+)'", "Static arguments", _static),
    _Rule(r"Non-hashable|not hashable|static_arg(?:nums|names)\.|invalid argn", "Static arguments"),
    _Rule(r"Gradient only defined|requires real- or complex|differentiat|[Tt]ranspose rule"
          r"|has_aux|holomorphic|custom_[jv][vj]p|cotangent|tangent|aux output|linear_transpose",
          "Derivatives"),
    _Rule(r"is not a valid JAX type|as an abstract array", "Values that are no arrays",
          _not_an_array),
    _Rule(r"not a valid JAX array type|with a sequence. The requested array",
          "Values that are no arrays", "Arrays hold numbers of one dtype, in rows of one length."),
    _Rule(r"requires ndarray or scalar|Expected a callable|should be (?:a )?callable"
          r"|is not a valid value", "Values that are no arrays"),
    _Rule(r"PRNG|random key|keys?<|single key|jax\.random", "Random keys"),
    _Rule(r"replace=False", "Random keys", "Draw fewer, or with replacement."),
    _Rule(r"[Uu]nknown backend|[Bb]ackend|device_put|jax\.Device|plugin|platform", "Devices"),
    _Rule(r"deleted|donated", "Deleted arrays"),
    _Rule(r"mesh|sharding|PartitionSpec|shard_map|axis name|in_specs|out_specs|Resource axis",
          "Meshes and shardings"),
    _Rule(r"vmap|in_axes|out_axes", "vmap"),
    _Rule(r"^scan|^cond|branch|carry|while_loop|fori_loop|cond_fun|body_fun|switch|Index type",
          "Control flow"),
    _Rule(r"pytree|PyTreeDef|leaves|tree_", "Trees"),
    _Rule(r"immutable|[Ii]ndex|indices|indexed", "Indices"),
    _Rule(r"data type .* not understood|dtype|Cannot interpret|out of bounds for (?:u?int|Python)"
          r"|too large to convert|negative powers|overflow", "Dtypes"),
    _Rule(r"broadcasting|reshape|contracting", "Shapes"),
    _Rule(r"ax[ei]s", "Axes"),
    _Rule(r"shape|dimension|[Rr]ank|size|broadcast|contract|concatenate", "Shapes"),
    _Rule(r"truth value", "TracerBoolConversionError"),
    _Rule(r"RESOURCE_EXHAUSTED|INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|XLA", "JaxRuntimeError"),
)  # fmt: skip
# What other messages are about, by their class.
_FALLBACKS: dict[type[BaseException], str] = {
    AttributeError: "Names",
    NotImplementedError: "Others",
    IndexError: "Indices",
    OverflowError: "Dtypes",
    TypeError: "Arguments",
    RuntimeError: "JaxRuntimeError",
    BaseException: OTHERS,
}
