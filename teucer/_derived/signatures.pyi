"""The types of transformations, for type checkers and editors: a transformed function keeps the signature of the function. At run time each stands where `tools/stubs.py` says."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
)

from teucer._core.typing import Array
from teucer._derived.remat import Policy
from teucer._derived.stages import Lowered, Traced
from teucer._transform.jit_calls import Inline

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
Aux = TypeVar("Aux")
F = TypeVar("F", bound=Callable[..., Any])

class Transformed(Generic[P, R]):
    """A function that a transformation returns."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __get__(self, instance: None, owner: type | None = ...) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = ...) -> Callable[..., R]: ...

class Jitted(Generic[P, R]):
    """A function that runs as one program."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __get__(self, instance: None, owner: type | None = ...) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = ...) -> Jitted[..., R]: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...
    def trace(self, *args: Any, **kwargs: Any) -> Traced: ...
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...
    def clear_cache(self) -> None: ...

# Derivatives are of the type of the argument. These are classes, not types of callables, since
# checkers then know the types of lambdas too.
class Gradient(Transformed[P, Any]):
    """The gradient by the first argument."""

    @overload
    def __call__(
        self: Gradient[Concatenate[T, Q]], x: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> T: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...

class GradientAndMore(Transformed[P, Any], Generic[P, Aux]):
    """The gradient by the first argument, and what the function gives besides."""

    @overload
    def __call__(
        self: GradientAndMore[Concatenate[T, Q], Aux], x: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[T, Aux]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, Aux]: ...

class ValueAndGradient(Transformed[P, Any], Generic[P, R]):
    """The value and the gradient by the first argument."""

    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[T, Q], R], x: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R, T]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]: ...

class Pullback(Protocol):
    """The function from cotangents of results to those of arguments."""

    def __call__(self, ct: Any, /) -> tuple[Any, ...]: ...
    def __getattr__(self, name: str) -> Any: ...

class _Jit(Protocol):
    def __call__(self, fun: Callable[P, R], /) -> Jitted[P, R]: ...

@overload
def jit(
    fun: Callable[P, R],
    /,
    *,
    in_shardings: object = ...,
    out_shardings: object = ...,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
    keep_unused: bool = ...,
    device: object = ...,
    backend: str | None = ...,
    inline: bool | Inline = ...,
    compiler_options: Mapping[str, object] | None = ...,
    outline: bool | None = ...,
    dynamic_dims: object = ...,
    dynamic_results: bool | int | None = ...,
    memory: int | float | str | None = ...,
) -> Jitted[P, R]:
    """A function that is traced once for each signature of its arguments, compiled by XLA, and run
    as one program."""

@overload
def jit(
    fun: None = ...,
    /,
    *,
    in_shardings: object = ...,
    out_shardings: object = ...,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
    keep_unused: bool = ...,
    device: object = ...,
    backend: str | None = ...,
    inline: bool | Inline = ...,
    compiler_options: Mapping[str, object] | None = ...,
    outline: bool | None = ...,
    dynamic_dims: object = ...,
    dynamic_results: bool | int | None = ...,
    memory: int | float | str | None = ...,
) -> _Jit:
    """A function that is traced once for each signature of its arguments, compiled by XLA, and run
    as one program."""

def vmap(
    fun: Callable[P, R],
    in_axes: object = ...,
    out_axes: object = ...,
    axis_name: object = ...,
    axis_size: int | None = ...,
    spmd_axis_name: object = ...,
    sum_match: bool = ...,
) -> Callable[P, R]:
    """A function that maps `fun` over an axis of its arguments."""

@overload
def grad(
    fun: Callable[P, object],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Iterable[object] = ...,
) -> Gradient[P]:
    """The gradient of a scalar function."""

@overload
def grad(
    fun: Callable[P, tuple[object, Aux]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Iterable[object] = ...,
) -> GradientAndMore[P, Aux]:
    """The gradient of a scalar function."""

@overload
def grad(
    fun: Callable[P, object],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Iterable[object] = ...,
) -> Transformed[P, Any]:
    """The gradient of a scalar function."""

@overload
def value_and_grad(
    fun: Callable[P, tuple[R, Aux]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Iterable[object] = ...,
) -> ValueAndGradient[P, tuple[R, Aux]]:
    """The value and the gradient of a scalar function; arguments as for `grad`."""

@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Iterable[object] = ...,
) -> ValueAndGradient[P, R]:
    """The value and the gradient of a scalar function; arguments as for `grad`."""

@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Iterable[object] = ...,
) -> Transformed[P, tuple[R, Any]]:
    """The value and the gradient of a scalar function; arguments as for `grad`."""

class _Same(Protocol):
    def __call__(self, fun: Callable[P, R], /) -> Callable[P, R]: ...

@overload
def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool | Sequence[Any] = ...,
    policy: Policy | None = ...,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: object = ...,
    concrete: bool = ...,
    budget: float | str | None = ...,
) -> Callable[P, R]:
    """`fun`, whose intermediate values are computed again in the backward pass instead of being
    kept."""

@overload
def checkpoint(
    fun: None = ...,
    *,
    prevent_cse: bool | Sequence[Any] = ...,
    policy: Policy | None = ...,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: object = ...,
    concrete: bool = ...,
    budget: float | str | None = ...,
) -> _Same:
    """`fun`, whose intermediate values are computed again in the backward pass instead of being
    kept."""

remat = checkpoint

class _Custom(Generic[P, R]):
    __name__: str
    __wrapped__: Callable[P, R]
    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = ...,
        nondiff_argnames: Sequence[str] = ...,
    ) -> None: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __get__(self, instance: None, owner: type | None = ...) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = ...) -> Callable[..., R]: ...
    def __getattr__(self, name: str) -> Any: ...

class custom_jvp(_Custom[P, R]):
    jvp: Callable[..., Any] | None
    symbolic_zeros: bool
    def defjvp(self, jvp: F, symbolic_zeros: bool = ...) -> F: ...
    def defjvps(self, *jvps: Callable[..., object] | None) -> None: ...

class custom_vjp(_Custom[P, R]):
    def defvjp(
        self,
        fwd: Callable[..., object],
        bwd: Callable[..., object],
        symbolic_zeros: bool = ...,
        optimize_remat: bool = ...,
        generic_batching: bool = ...,
    ) -> None: ...
    def defvjp_with_logs(
        self,
        fwd: Callable[..., object],
        bwd: Callable[..., object],
        symbolic_zeros: bool = ...,
        optimize_remat: bool = ...,
        generic_batching: bool = ...,
    ) -> None: ...
    def defvjp_with_accums(
        self,
        fwd: Callable[..., object],
        bwd: Callable[..., object],
        symbolic_zeros: bool = ...,
        optimize_remat: bool = ...,
        generic_batching: bool = ...,
    ) -> None: ...
    def defremat(
        self,
        fwd: Callable[..., object],
        rem: Callable[..., object],
        bwd: Callable[..., object],
        generic_batching: bool = ...,
    ) -> None: ...
    def defremat_with_logs(
        self,
        fwd: Callable[..., object],
        rem: Callable[..., object],
        bwd: Callable[..., object],
        generic_batching: bool = ...,
    ) -> None: ...

@overload
def vjp(
    fun: Callable[..., R],
    *primals: Any,
    has_aux: Literal[False] = ...,
    reduce_axes: Iterable[object] = ...,
    saveable_args: object = ...,
    in_nzs: object = ...,
) -> tuple[R, Pullback]:
    """The value of a function, and the function from cotangents of its results to cotangents of its
    arguments."""

@overload
def vjp(
    fun: Callable[..., tuple[R, Aux]],
    *primals: Any,
    has_aux: Literal[True],
    reduce_axes: Iterable[object] = ...,
    saveable_args: object = ...,
    in_nzs: object = ...,
) -> tuple[R, Pullback, Aux]:
    """The value of a function, and the function from cotangents of its results to cotangents of its
    arguments."""

@overload
def jvp(
    fun: Callable[..., R],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = ...,
) -> tuple[R, R]:
    """Results of a function and their tangents, for tangents of its arguments: forward-mode
    differentiation."""

@overload
def jvp(
    fun: Callable[..., tuple[R, Aux]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[R, R, Aux]:
    """Results of a function and their tangents, for tangents of its arguments: forward-mode
    differentiation."""

@overload
def linearize(
    fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = ..., in_nzs: object = ...
) -> tuple[R, Callable[..., R]]:
    """The value of a function, and its derivative there as a linear function of tangents, ready to
    be called often."""

@overload
def linearize(
    fun: Callable[..., tuple[R, Aux]],
    *primals: Any,
    has_aux: Literal[True],
    in_nzs: object = ...,
) -> tuple[R, Callable[..., R], Aux]:
    """The value of a function, and its derivative there as a linear function of tangents, ready to
    be called often."""

# A tree of arrays keeps its type where the function returns arrays.
@overload
def tree_map(
    f: Callable[[Array], Array], tree: T, *, is_leaf: Callable[[Any], bool] | None = ...
) -> T:
    """The tree of f(leaf, *corresponding subtrees of rest)."""

@overload
def tree_map(
    f: Callable[[Array, Array], Array],
    tree: T,
    other: T,
    /,
    *,
    is_leaf: Callable[[Any], bool] | None = ...,
) -> T:
    """The tree of f(leaf, *corresponding subtrees of rest)."""

@overload
def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = ...
) -> Any:
    """The tree of f(leaf, *corresponding subtrees of rest)."""

def jacfwd(
    fun: Callable[P, object],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    *,
    sparse: bool = ...,
) -> Transformed[P, Any]:
    """The Jacobian of a function by forward mode, a column at a time: best for few inputs and many
    outputs."""

def jacrev(
    fun: Callable[P, object],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    *,
    sparse: bool = ...,
) -> Transformed[P, Any]:
    """The Jacobian of a function by reverse mode, a row at a time: best for many inputs and few
    outputs."""

jacobian = jacrev

def hessian(
    fun: Callable[P, object],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    *,
    sparse: bool = ...,
) -> Transformed[P, Any]:
    """The Hessian of a function, as `jacfwd` of `jacrev`; sparse as for these."""
