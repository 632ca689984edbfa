"""Functions as TensorFlow functions, and TensorFlow functions as callbacks. Needs TensorFlow.

`convert(f)` is a function of tensors, which `tf.function` and `tf.saved_model.save` take. Where
TensorFlow is not installed importing this module says how to do without: `jax.export` needs
nothing.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer import export
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import dtypes
from teucer._core.calls import fun_name
from teucer._core.trace import typeof
from teucer._core.types import float0
from teucer._derived.custom_vjp import custom_vjp
from teucer._derived.stages import jit
from teucer._derived.staging import eval_shape
from teucer._dimensions.dimensions import is_symbolic
from teucer._trees import pytrees
from teucer._xla import mlir
from teucer.export import DisabledSafetyCheck
from teucer.lax._callbacks import io_callback, pure_callback

__all__ = [
    "DisabledSafetyCheck", "PolyShape", "UnspecifiedOutputShapeDtype", "call_tf", "convert",
    "dtype_of_val", "eval_polymorphic_shape", "split_to_logical_devices",
]  # fmt: skip

try:
    tf: Any = importlib.import_module("tensorflow")
    _xla: Any = importlib.import_module("tensorflow.compiler.tf2xla.python.xla")
except ModuleNotFoundError as err:
    if err.name != "tensorflow":
        raise
    raise ModuleNotFoundError(
        "jax.experimental.jax2tf needs TensorFlow, which is not installed.\n"
        "  Install it (pip install tensorflow), or save the program without it: "
        "jax.export.export(jax.jit(f))(*args).serialize()\n"
        "  gives bytes that jax.export.deserialize reads, and `teucer export FILE:FUNCTION` "
        "writes StableHLO for other runtimes.",
        name="tensorflow",
    ) from None

# The oldest convention. It differs from the newest in programs over several devices only, which are
# refused here.
_VERSION = export.minimum_supported_calling_convention_version


class PolyShape(tuple[Any, ...]):
    """A symbolic shape in JAX's old form; write texts such as "(b, 3)" instead."""

    def __new__(cls, *sizes: Any) -> PolyShape:
        return super().__new__(cls, sizes)

    def __str__(self) -> str:
        return (
            f"({', '.join('...' if d is Ellipsis else '_' if d is None else str(d) for d in self)}"
            f"{',' * (len(self) == 1)})"
        )


class UnspecifiedOutputShapeDtype:
    """Says nothing about the results of a TensorFlow function."""


def convert(
    fun_jax: Callable[..., Any],
    *,
    polymorphic_shapes: Any = None,
    polymorphic_constraints: Sequence[str] = (),
    with_gradient: bool = True,
    enable_xla: bool = True,
    native_serialization: bool = True,
    native_serialization_platforms: Sequence[str] | None = None,
    native_serialization_disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Any]:
    """A function of TensorFlow tensors that computes as `fun_jax` does on arrays.

    polymorphic_shapes: for each positional argument the text of a symbolic shape, such as "(b, 3)",
        a tree prefix of those, or None for sizes that are known. Tensors whose sizes TensorFlow
        does not know need one.
    polymorphic_constraints: facts about symbolic sizes, as of `jax.export.symbolic_shape`.
    with_gradient: whether TensorFlow differentiates it, any number of times; else it refuses.
    native_serialization_platforms: for which platforms ("cpu", "cuda", "rocm", "tpu"); by default
    the platform of this process. Raises ValueError for a tensor of unknown size without a symbolic
    one, NotImplementedError without native serialization.
    """
    if not (enable_xla and native_serialization):
        raise NotImplementedError(
            "jax2tf.convert: programs are StableHLO here; single operations of TensorFlow are not "
            "written.\n  Leave out enable_xla=False and native_serialization=False."
        )
    jitted = fun_jax if hasattr(fun_jax, "trace") else jit(fun_jax)
    exporter = export.export(
        jitted,
        platforms=native_serialization_platforms,
        disabled_checks=native_serialization_disabled_checks,
    )

    @functools.cache
    def exported_for(tree: Any, specs: tuple[Any, ...]) -> export.Exported:
        args, kwargs = pytrees.tree_unflatten(tree, specs)
        found = exporter(*args, **kwargs)
        _refuse_foreign(found)
        if found.nr_devices > 1:
            raise NotImplementedError(
                f"jax2tf.convert: '{found.fun_name}' is over {found.nr_devices} devices.\n"
                "  Convert a function for one device."
            )
        return found

    def in_tf(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = (
            pytrees.tree_map(_tensor, _own(args)),
            pytrees.tree_map(_tensor, _own(kwargs)),
        )
        structs = _structs(fun_jax, args, polymorphic_shapes, polymorphic_constraints)
        specs, tree = pytrees.tree_flatten(
            (structs, pytrees.tree_map(lambda t: _struct(t, fun_name(fun_jax)), kwargs))
        )
        exported = exported_for(tree, tuple(specs))
        tensors = [
            _cast(t, s.dtype)
            for t, s in zip(pytrees.tree_leaves((args, kwargs)), specs, strict=True)
        ]
        outs = _differentiable(exported)(*tensors) if with_gradient else _plain(exported, tensors)
        return pytrees.tree_unflatten(exported.out_tree, list(outs))

    in_tf.__name__ = fun_name(fun_jax)
    return in_tf


def _refuse_foreign(exported: export.Exported) -> None:
    """Raise NotImplementedError for functions of jaxlib, which TensorFlow lacks."""
    lacking = sorted(
        name
        for name in mlir.custom_call_targets(mlir.read_portable(exported.mlir_module_serialized))
        if name.endswith("_ffi")
    )
    if lacking:
        raise NotImplementedError(
            f"jax2tf.convert: '{exported.fun_name}' calls {', '.join(lacking)} of jaxlib, which "
            "TensorFlow lacks.\n  Such calls come from jax.numpy.linalg on CPUs and GPUs: do "
            "that part in TensorFlow."
        )


def _own(x: Any) -> Any:
    """A tree without TensorFlow's container classes, in which a `tf.Module` wraps containers among
    its attributes."""
    if type(x).__module__.endswith("trackable.data_structures"):
        x = dict(x) if isinstance(x, dict) else tuple(x) if isinstance(x, tuple) else list(x)
    if type(x) is dict:
        return {k: _own(v) for k, v in x.items()}
    return type(x)(map(_own, x)) if type(x) in (list, tuple) else x


def _tensor(x: Any) -> Any:
    """A leaf as a tensor. Numbers have the dtype that they have here."""
    if isinstance(x, tf.Tensor | tf.Variable):
        return tf.convert_to_tensor(x)
    return tf.convert_to_tensor(np.asarray(x, typeof(x).dtype))


def _cast(tensor: Any, dtype: Any) -> Any:
    """A tensor in the dtype that it has here: 64 bits wide only with x64."""
    return tensor if tensor.dtype.as_numpy_dtype == dtype else tf.cast(tensor, tf.as_dtype(dtype))


def _sizes(tensor: Any) -> tuple[int | None, ...]:
    if tensor.shape.rank is None:
        raise ValueError(
            "jax2tf.convert: TensorFlow does not know how many axes an argument has.\n"
            "  Give tf.function an input_signature with a shape, whose sizes may be None."
        )
    return tuple(tensor.shape.as_list())


def _struct(tensor: Any, name: str, like: Sequence[Any] | None = None) -> ShapeDtypeStruct:
    sizes = _sizes(tensor) if like is None else tuple(like)
    if None in sizes:
        raise ValueError(
            f"jax2tf.convert: a size of an argument of '{name}' is not known.\n"
            f"    tensor: {tensor}\n"
            '  Name it: convert(f, polymorphic_shapes=["(b, ...)"]), a text for '
            "each positional argument."
        )
    return ShapeDtypeStruct(sizes, dtypes.canonicalize_dtype(tensor.dtype.as_numpy_dtype))


def _structs(
    fun: Callable[..., Any], args: tuple[Any, ...], shapes: Any, constraints: Sequence[str]
) -> tuple[Any, ...]:
    """The types of positional arguments, with symbolic sizes."""
    name = fun_name(fun)
    if shapes is None:
        return tuple(pytrees.tree_map(lambda t: _struct(t, name), args))
    if isinstance(shapes, str | PolyShape):
        shapes = (shapes,) * len(args)
    texts = pytrees.tree_map(
        lambda s: str(s) if isinstance(s, PolyShape) else s,
        tuple(shapes),
        is_leaf=lambda s: s is None or isinstance(s, PolyShape),
    )
    known = pytrees.tree_map(
        lambda t: _struct(t, name, [1 if d is None else d for d in _sizes(t)]), args
    )
    structs: tuple[Any, ...] = export.symbolic_args_specs(known, texts, constraints)
    for tensor, struct in zip(pytrees.tree_leaves(args), pytrees.tree_leaves(structs), strict=True):
        for i, (size, said) in enumerate(zip(_sizes(tensor), struct.shape, strict=True)):
            if size is None and not is_symbolic(said):
                raise ValueError(
                    f"jax2tf.convert: size {i} of an argument of '{name}' is not known, and "
                    f"polymorphic_shapes says {said} of it.\n    tensor: {tensor}\n"
                    f"    polymorphic_shapes: {shapes}\n  Give it a name there."
                )
    return structs


def _plain(
    exported: export.Exported, tensors: Sequence[Any], *, differentiated: bool = False
) -> list[Any]:
    """The flat results of the program on tensors."""
    outs = _xla.call_module(
        [tensors[i] for i in exported.module_kept_var_idx],
        version=_VERSION,
        module=mlir.oldest(exported.mlir_module_serialized),
        Tout=[tf.as_dtype(np.bool_ if a.dtype == float0 else a.dtype) for a in exported.out_avals],
        Sout=[
            tf.TensorShape([None if is_symbolic(d) else d for d in a.shape])
            for a in exported.out_avals
        ],
        platforms=[p.upper() for p in exported.platforms],
        disabled_checks=[str(check) for check in exported.disabled_safety_checks],
    )
    if differentiated:
        return list(outs)
    message = f"'{exported.fun_name}' was converted with with_gradient=False."
    return [tf.raw_ops.PreventGradient(input=y, message=message) for y in outs]


def _differentiable(exported: export.Exported) -> Callable[..., Any]:
    """The flat function on tensors, whose gradient is the exported one, which is differentiable
    again."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def flat(*tensors: Any) -> Any:
        outs = _plain(exported, tensors, differentiated=True)

        def backward(*cts: Any, variables: Any = None) -> list[Any]:
            derivative = exported.vjp()
            taken = derivative.in_avals[len(tensors) :]
            given = [
                tf.zeros(_known(a, y), tf.bool) if a.dtype == float0 else _cast(ct, a.dtype)
                for a, y, ct in zip(taken, outs, cts, strict=True)
            ]
            found = _differentiable(derivative)(*tensors, *given)
            return [
                None if a.dtype == float0 else ct
                for a, ct in zip(derivative.out_avals, found, strict=True)
            ]

        return tuple(outs), backward

    return flat


def _known(aval: Any, like: Any) -> Any:
    return tf.shape(like) if any(map(is_symbolic, aval.shape)) else aval.shape


def call_tf(
    callable_tf: Callable[..., Any],
    has_side_effects: bool = True,
    ordered: bool = False,
    output_shape_dtype: Any = UnspecifiedOutputShapeDtype(),
    call_tf_graph: bool = False,
) -> Callable[..., Any]:
    """A TensorFlow function as a function of arrays, which compiled programs call as a callback on
    the host.

    has_side_effects: whether it is called although its results are unused. ordered: whether such
    calls keep their order.
    output_shape_dtype: a tree of ShapeDtypeStructs for the results; by default TensorFlow says it,
    which must know their sizes. `grad` asks TensorFlow for the gradient.
    Raises ValueError if a size of a result is not known, NotImplementedError for
    call_tf_graph=True.
    """
    if call_tf_graph:
        raise NotImplementedError(
            "jax2tf.call_tf: a graph of TensorFlow does not go into the program, which calls it.\n"
            "  Leave out call_tf_graph=True."
        )
    callback = (
        functools.partial(io_callback, ordered=ordered) if has_side_effects else pure_callback
    )

    def in_jax(*args: Any) -> Any:
        leaves, tree = pytrees.tree_flatten(args)
        avals = [typeof(x) for x in leaves]
        out_tree: Any = None

        def flat_tf(*tensors: Any) -> list[Any]:
            nonlocal out_tree
            outs, out_tree = pytrees.tree_flatten(
                callable_tf(*pytrees.tree_unflatten(tree, tensors))
            )
            return [tf.convert_to_tensor(y) for y in outs]

        in_graph = tf.function(flat_tf, autograph=False)
        concrete = in_graph.get_concrete_function(
            *[tf.TensorSpec(a.shape, tf.as_dtype(a.dtype)) for a in avals]
        )
        structs = _results(concrete.structured_outputs, output_shape_dtype, fun_name(callable_tf))

        def run(*xs: Any) -> list[Any]:
            return [y.numpy() for y in in_graph(*map(tf.convert_to_tensor, xs))]

        moving = [i for i, a in enumerate(avals) if np.issubdtype(a.dtype, np.inexact)]

        def run_backward(xs: Any, cts: Any) -> list[Any]:
            tensors = list(map(tf.convert_to_tensor, xs))
            with tf.GradientTape() as tape:
                tape.watch([tensors[i] for i in moving])
                outs = in_graph(*tensors)
            found = tape.gradient(
                outs,
                [tensors[i] for i in moving],
                output_gradients=list(map(tf.convert_to_tensor, cts)),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            return [g.numpy() for g in found]

        @custom_vjp
        def call(*xs: Any) -> Any:
            return callback(run, structs, *xs)

        def backward(xs: Any, cts: Any) -> tuple[Any, ...]:
            cts = [
                np.zeros(s.shape, s.dtype) if getattr(ct, "dtype", None) == float0 else ct
                for ct, s in zip(cts, structs, strict=True)
            ]
            of = [ShapeDtypeStruct(avals[i].shape, avals[i].dtype) for i in moving]
            found = dict(zip(moving, pure_callback(run_backward, of, xs, cts), strict=True))
            return tuple(found.get(i) for i in range(len(avals)))

        call.defvjp(lambda *xs: (call(*xs), xs), backward)
        return pytrees.tree_unflatten(out_tree, call(*leaves))

    return in_jax


def _results(outs: Sequence[Any], said: Any, name: str) -> list[ShapeDtypeStruct]:
    """The types of flat results."""
    if not isinstance(said, UnspecifiedOutputShapeDtype):
        return [ShapeDtypeStruct(s.shape, s.dtype) for s in pytrees.tree_leaves(said)]
    for i, y in enumerate(outs):
        if y.shape.rank is None or None in y.shape.as_list():
            raise ValueError(
                f"jax2tf.call_tf: the shape of result {i} of '{name}' is not known, TensorFlow "
                f"says {y.shape}.\n  Say it: call_tf(f, "
                "output_shape_dtype=jax.ShapeDtypeStruct(shape, dtype))."
            )
    return [
        ShapeDtypeStruct(
            tuple(y.shape.as_list()), dtypes.canonicalize_dtype(y.dtype.as_numpy_dtype)
        )
        for y in outs
    ]


def dtype_of_val(val: Any) -> Any:
    """The TensorFlow dtype of a tensor, an array or a number, as it has it here."""
    dtype = (
        val.dtype.as_numpy_dtype if isinstance(val, tf.Tensor | tf.Variable) else typeof(val).dtype
    )
    return tf.as_dtype(dtypes.canonicalize_dtype(dtype))


def eval_polymorphic_shape(
    fun_jax: Callable[..., Any], *, polymorphic_shapes: Any = None
) -> Callable[..., Any]:
    """A function of arguments that gives the texts of the shapes of results, with symbolic
    sizes."""

    def of(*args: Any) -> Any:
        shapes = polymorphic_shapes
        if shapes is not None:
            args = export.symbolic_args_specs(
                args, shapes if isinstance(shapes, str) else tuple(shapes)
            )
        return pytrees.tree_map(lambda s: str(PolyShape(*s.shape)), eval_shape(fun_jax, *args))

    return of


def split_to_logical_devices(tensor: Any, partition_dimensions: Any) -> Any:
    """Refused: partitions are of functions over a mesh, which TensorFlow is not given."""
    raise NotImplementedError(
        "jax2tf.split_to_logical_devices: TensorFlow is given programs for one device.\n"
        "  Partition arrays here, by jax.jit over a mesh."
    )
