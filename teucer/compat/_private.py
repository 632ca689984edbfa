"""`jax._src`.

The private names of JAX that libraries use, each as an adapter to a name of Teucer's.

The list is written by hand and short. A row stands here because a library needs it; the library is
named. A name that is not listed raises an error that says that it is private. `docs/compat.md` says
how to add a row.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any, final

_ADAPTERS, _EINSUM, _PICKLES, _PROCESSES = (
    "teucer.compat._adapters",
    "teucer.compat._einsum",
    "teucer.compat._pickles",
    "teucer.compat._processes",
)
# module of jax._src -> (the libraries that need it, {where the names come from: the names});
# `name=other` gives `other` as `name`.
LIST: dict[str, tuple[str, dict[str, str]]] = {
    "ad_checkpoint": (
        "netket, axlearn, oryx",
        {
            "teucer.ad_checkpoint": (
                "checkpoint checkpoint_name checkpoint_policies print_saved_residuals remat"
            ),
            "teucer._derived.remat": "name_p remat_p",
        },
    ),
    "ad_util": (
        "lineax, kfac-jax, oryx",
        {
            _ADAPTERS: "stop_gradient_p",
            "teucer.custom_derivatives": "SymbolicZero",
            "teucer.interpreters.ad": (
                "Zero instantiate=instantiate_zeros zeros_like_aval add_jaxvals add_jaxvals_p"
            ),
        },
    ),
    "api": (
        "netket, levanter",
        {
            "teucer": (
                "block_until_ready checkpoint device_get device_put eval_shape grad jacfwd jacrev "
                "jit jvp linearize make_jaxpr pmap value_and_grad vjp vmap"
            )
        },
    ),
    "api_util": (
        "netket, levanter, axlearn",
        {
            _ADAPTERS: "infer_argnums_and_argnames",
            "teucer.api_util": (
                "argnums_partial debug_info donation_vector flatten_axes flatten_fun "
                "flatten_fun_nokwargs rebase_donate_argnums shaped_abstractify"
            ),
        },
    ),
    "array": (
        "orbax, tensorstore users, axlearn",
        {
            "teucer._xla.arrays": "ArrayImpl",
            _PICKLES: "_reconstruct_array",
            _PROCESSES: "Index Shape local_to_global_shape",
        },
    ),
    "checkify": (
        "flax.nnx",
        {
            _ADAPTERS: "Out JaxException",
            "teucer.experimental.checkify": (
                "Error ErrorCategory all_checks automatic_checks check check_error checkify "
                "debug_check div_checks float_checks index_checks init_error nan_checks "
                "user_checks"
            ),
        },
    ),
    "clusters": (
        "levanter",
        {_PROCESSES: "ClusterEnv GceTpuCluster K8sCluster OmpiCluster SlurmCluster"},
    ),
    "compiler": (
        "chex",
        {"teucer._executables.compile": "backend_compile_and_load=loaded_or_compiled"},
    ),
    "config": (
        "numpyro, jax2tf users, JAX's documentation",
        {
            "teucer": "config",
            "teucer._base.config": (
                "* jax_export_calling_convention_version=export_calling_convention_version "
                "jax_platforms=platforms"
            ),
        },
    ),
    "core": (
        "equinox, flax, numpyro, quax, kfac-jax, pickles",
        {
            _ADAPTERS: "full_lower physical_aval safe_map safe_zip trace_state_clean",
            "teucer._optimize.effects": "Effect",
            "teucer._devices.axis_type": "ManualAxisType",
            "teucer._core.memory": "MemorySpace",
            "teucer.core": "AbstractValue Atom ShapedArray Trace Tracer eval_jaxpr max_dim min_dim",
            "teucer._core.high": "cur_qdd",
            "teucer._core.types": "get_aval=aval_of pytype_aval_mappings=aval_rules",
            "teucer._dialects.high.types": "aval_mapping_handlers",
            "teucer._dimensions.dimensions": "is_constant_shape=is_constant",
            "teucer._jax.programs": "is_concrete is_constant_dim",
            "teucer.extend.core": "*",
            "teucer": "ensure_compile_time_eval eval_context=ensure_compile_time_eval typeof",
            "teucer.errors": (
                "ConcretizationTypeError InconclusiveDimensionOperation UnexpectedTracerError"
            ),
        },
    ),
    "cudnn.fused_attention_stablehlo": (
        "keras, maxtext, axlearn",
        {
            "teucer.compat._cudnn": (
                "MaskType _dot_product_attention_bwd_p_wrapper "
                "_dot_product_attention_fwd_p_wrapper _normalize_layout "
                "check_compute_capability check_cudnn_version "
                "check_is_flash_attention check_layout dot_product_attention"
            )
        },
    ),
    "custom_derivatives": (
        "lineax",
        {
            "teucer.custom_derivatives": "SymbolicZero closure_convert custom_gradient custom_jvp "
            "custom_jvp_call_p custom_vjp custom_vjp_call_p linear_call zero_from_primal"
        },
    ),
    "dispatch": ("equinox", {"teucer": "wait_for_tokens=effects_barrier"}),
    "distributed": ("orbax", {"teucer._devices.processes": "State global_state=state"}),
    "dtypes": (
        "equinox, flax, levanter, tinygp",
        {
            _ADAPTERS: "DType DTypeLike _jax_types dtype supports_inf to_complex_dtype",
            "teucer.dtypes": (
                "TypePromotionError bfloat16 canonicalize_dtype extended finfo float0 iinfo "
                "issubdtype itemsize_bits prng_key result_type scalar_type_of"
            ),
            "teucer._base.element_types": "ExtendedDType",
        },
    ),
    "effects": ("equinox", {"teucer._optimize.effects": "Effect"}),
    "flatten_util": ("blackjax", {"teucer.flatten_util": "ravel_pytree"}),
    "interpreters.ad": (
        "kfac-jax, netket, diffrax",
        {"teucer.interpreters.ad": "*", "teucer._derived.custom_calls": "CustomVJPException"},
    ),
    "interpreters.batching": ("equinox, netket", {"teucer.interpreters.batching": "*"}),
    "interpreters.mlir": (
        "mpi4jax, jax-triton",
        {"teucer.interpreters.mlir": "*", "teucer._jax.building": "custom_call"},
    ),
    "interpreters.partial_eval": ("kfac-jax, haiku", {"teucer.interpreters.partial_eval": "*"}),
    "lax.lax": ("axlearn", {"teucer.lax": "*"}),
    "lax.convolution": (
        "aqt",
        {"teucer.lax": "conv_dimension_numbers conv_general_dilated conv_general_dilated_p"},
    ),
    "layout": ("axlearn", {"teucer.experimental.layout": "Format Layout"}),
    "lax.control_flow": (
        "oryx, tfp",
        {
            "teucer.lax": "associative_scan cond cond_p cumlogsumexp cummax cummin cumprod cumsum "
            "fori_loop map "
            "scan scan_p switch while_loop while_p"
        },
    ),
    "lib": (
        "grain",
        {
            _ADAPTERS: "cuda_versions",
            "teucer._xla.client": "jaxlib_extension_version",
            "teucer.compat._lib": "version=__version_info__",
        },
    ),
    "lib._jax": ("qwix", {"jaxlib._jax": "*"}),
    "lib.xla_client": (
        "brax, dynamiqs, JAX's documentation (autodidax)",
        {"jaxlib.xla_client": "*"},
    ),
    "lib.mlir": (
        "jax-triton, JAX's documentation (primitives)",
        {"teucer.extend.mlir": "ir passmanager"},
    ),
    "lib.mlir.dialects": (
        "jax-triton, JAX's documentation (primitives)",
        {"teucer.extend.mlir.dialects": "* hlo=stablehlo"},
    ),
    "linear_util": (
        "kfac-jax, oryx",
        {"teucer.extend.linear_util": "*", "teucer._jax.linear_util": "Store"},
    ),
    "literals": ("equinox, quax", {_ADAPTERS: "TypedComplex TypedFloat TypedInt TypedNdArray"}),
    "mesh": (
        "levanter, axlearn, pickles",
        {
            "teucer._jax.pxla": "thread_resources",
            "teucer.sharding": (
                "AbstractDevice AbstractMesh AxisType Mesh get_abstract_mesh "
                "get_concrete_mesh=get_mesh set_mesh use_abstract_mesh"
            ),
        },
    ),
    "named_sharding": (
        "orbax, pickles",
        {"teucer.sharding": "NamedSharding", _PICKLES: "_unpickle_named_sharding"},
    ),
    "nn.functions": ("sbijax", {"teucer.nn": "*"}),
    "numpy.einsum": (
        "aqt",
        {_EINSUM: "_default_poly_einsum_handler _einsum", "teucer.numpy": "einsum einsum_path"},
    ),
    "numpy.lax_numpy": ("haliax, levanter", {"teucer.numpy": "*"}),
    "numpy.ufuncs": ("esquilax", {"teucer.numpy": "ufunc"}),
    "pallas.mosaic.random": ("axlearn", {"teucer.experimental.pallas.tpu": "to_pallas_key"}),
    "partition_spec": (
        "orbax, pickles",
        {"teucer.sharding": "PartitionSpec", _PICKLES: "_get_default_unconstrained"},
    ),
    "pjit": (
        "quax, jaxns, axlearn",
        {
            "teucer": "reshard",
            "teucer.lax": "with_sharding_constraint",
            "teucer.sharding": "auto_axes",
            "teucer.experimental.pjit": "pjit",
            "teucer._transform.jit_calls": "jit_p",
        },
    ),
    "pretty_printer": ("haliax", {_ADAPTERS: "text"}),
    "profiler": ("tokamax", {_ADAPTERS: "_profile_state", "teucer.profiler": "*"}),
    "public_test_util": (
        "tinygp",
        {_ADAPTERS: "check_close", "teucer.test_util": "check_grads check_jvp check_vjp"},
    ),
    "random": (
        "netket, kauldron",
        {"teucer.random": "*", _ADAPTERS: "_check_prng_key"},
    ),
    "random.core": (
        "levanter, kauldron",
        {"teucer.random": "*", _ADAPTERS: "_check_prng_key"},
    ),
    "random.prng": ("pickles", {_PICKLES: "KeyTy PRNGImpl PRNGKeyArray"}),
    "random.rbg": (
        "pickles",
        {
            _PICKLES: "_rbg_fold_in _rbg_random_bits _rbg_seed _rbg_split _unsafe_rbg_fold_in "
            "_unsafe_rbg_split"
        },
    ),
    "random.threefry2x32": (
        "quax, pickles",
        {
            "teucer.random._threefry": "threefry_fold_in=fold_in threefry_random_bits=random_bits "
            "threefry_seed=seed_words threefry_split=split"
        },
    ),
    "scipy.special": ("jaxns", {"teucer.scipy.special": "*"}),
    "sharding": ("axlearn", {"teucer.sharding": "Sharding"}),
    "sharding_impls": (
        "orbax, levanter, jaxns, axlearn",
        {
            _ADAPTERS: "canonicalize_sharding",
            _PROCESSES: "NonUniformShardingError get_process_index_and_count local_to_global_shape",
            "teucer.sharding": "NamedSharding SingleDeviceSharding",
        },
    ),
    "source_info_util": ("flax", {_ADAPTERS: "register_exclusion"}),
    "flattree": ("quax", {"teucer.lax._control.groups": "FlatTree flatten nones pack"}),
    "hijax": ("flax.nnx", {"teucer.experimental.hijax": "*"}),
    "state.indexing": ("levanter", {"teucer.experimental.pallas": "Slice dslice"}),
    "state.types": ("flax.nnx", {"teucer._core.reference_types": "AbstractRef=RefType"}),
    "stages": ("levanter", {"teucer.stages": "*"}),
    "test_util": (
        "JAX's documentation (gradient checkpointing)",
        {_ADAPTERS: "create_mesh", "teucer.test_util": "check_grads check_jvp check_vjp"},
    ),
    "traceback_util": (
        "equinox, flax, jaxtyping",
        {
            _ADAPTERS: "filter_traceback include_frame register_exclusion",
            "teucer._base.tracebacks": "_exclude_paths=excluded api_boundary",
        },
    ),
    "tree_util": (
        "flax, orbax",
        {
            _ADAPTERS: "_registry",
            "teucer._trees.tree_errors": "prefix_errors",
            "teucer.tree_util": "*",
        },
    ),
    "typing": (
        "distrax, netket, jaxctx",
        {
            _ADAPTERS: "DType DTypeLike Shape SupportsDType",
            "teucer.typing": "ArrayLike",
            "teucer": "Array",
        },
    ),
    "util": (
        "netket, oryx, kfac-jax",
        {
            _ADAPTERS: (
                "HashablePartial merge_lists partition_list safe_map safe_zip split_list unzip2 "
                "unzip3"
            ),
            "functools": "wraps",
        },
    ),
    "xla_bridge": (
        "chex, mpi4jax",
        {
            _ADAPTERS: "get_backend",
            "teucer._devices.backends": "_backends=_clients",
            "teucer": (
                "default_backend device_count devices local_device_count local_devices "
                "process_count process_index"
            ),
        },
    ),
}
# Modules that only hold others.
_PACKAGES = {name[:i] for name in LIST for i, letter in enumerate(name) if letter == "."} | {""}


@final
class _Private(ModuleType):
    """A module of jax._src, which gives the names of its row."""

    def __init__(
        self, name: str, where: dict[str, tuple[str, str]], everything: tuple[str, ...]
    ) -> None:
        super().__init__(name, "Names of JAX's private modules that libraries use.")
        self.__path__: list[str] = []
        self._where, self._everything = where, everything

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._where:
            source, other = self._where[name]
            value = getattr(importlib.import_module(source), other)
        else:
            place = next(
                (m for m in map(importlib.import_module, self._everything) if hasattr(m, name)),
                None,
            )
            if place is None:
                return self._submodule(name)
            value = getattr(place, name)
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # A program that replaces a listed name expects the rest of the library to call the new
        # value.
        if name in vars(self).get("_where", ()) and isinstance(value, FunctionType):
            source, other = self._where[name]
            setattr(importlib.import_module(source), other, value)
        super().__setattr__(name, value)

    def _submodule(self, name: str) -> ModuleType:
        full = f"{self.__name__}.{name}"
        if not _is_listed(full):
            raise AttributeError(_message(full), name=name, obj=self)
        return importlib.import_module(full)


def module(name: str, spec: ModuleSpec | None) -> ModuleType:
    """The module `jax._src` or `jax._src.X`.

    Raises ImportError if none of its names is listed.
    """
    if not _is_listed(name):
        # Not ModuleNotFoundError, which `from jax._src.core import name` would leave out of its
        # message.
        raise ImportError(_message(name), name=name)
    short = _short(name)
    where, everything = {}, []
    for source, names in LIST.get(short, ("", {}))[1].items():
        for item in names.split():
            if item == "*":
                everything.append(source)
            else:
                given, _, other = item.partition("=")
                where[given] = (source, other or given)
    made = _Private(name, where, tuple(everything))
    made.__spec__ = spec
    return made


def _short(name: str) -> str:
    return name.removeprefix("jax._src").removeprefix(".")


def _is_listed(name: str) -> bool:
    return _short(name) in LIST or _short(name) in _PACKAGES


def _message(name: str) -> str:
    public = f"jax.{_short(name)}"
    parent, _, last = public.rpartition(".")
    place = sys.modules.get(parent)
    there = place is not None and hasattr(place, last)
    return (
        f"{name} is private in JAX, and not among the private names that Teucer has for the "
        "libraries that need them (teucer/compat/_private.py).\n"
        f"  Use {public if there else 'a public name of jax, jax.extend or jax.interpreters'}."
    )
