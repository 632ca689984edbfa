"""Shapes with symbolic dimensions from text.

`symbolic_shape`, `symbolic_args_specs`, and the scope of their variables.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import dtypes, source
from teucer._base.source import here
from teucer._core.trace import typeof
from teucer._dimensions.dimensions import Scope, bounds, is_symbolic, max_dim, min_dim
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Size, Value


def is_symbolic_dim(p: Value) -> bool:
    """Whether a size is not a constant.

    >>> is_symbolic_dim(3), is_symbolic_dim(symbolic_shape("n")[0])
    (False, True)
    """
    return is_symbolic(p)


def symbolic_dim_bounds(dimension: Size) -> tuple[float, float]:
    """The least and the greatest value that a size is known to have; infinite where nothing is
    known.

    Raises TypeError unless given an integer or a symbolic size.

    >>> a, = symbolic_shape("a", constraints=["a >= 3", "a <= 7"])
    >>> symbolic_dim_bounds(2 * a + 1), symbolic_dim_bounds(4)
    ((7, 15), (4, 4))
    """
    if not is_symbolic(dimension) and (
        isinstance(dimension, bool) or not hasattr(dimension, "__index__")
    ):
        raise TypeError(
            "symbolic_dim_bounds: dimension must be an integer or a symbolic size, got "
            f"{dimension!r}."
        )
    low, high = bounds(dimension if is_symbolic(dimension) else operator.index(dimension))
    return low, high


@final
class SymbolicScope(Scope):
    """The scope of a program's dimension variables: constraints on them. Variables of different
    scopes do not mix.

    constraints_str: "E1 >= E2", "E1 <= E2", or "E1 == E2" where E1 is a product.
    Raises ValueError for text that is no constraint, and for a constraint that cannot be.

    >>> from teucer import export
    >>> a, b = export.symbolic_shape("a, b", scope=export.SymbolicScope(["a >= b", "b >= 8"]))
    >>> a >= 8
    True
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        super().__init__()
        if isinstance(constraints_str, str):
            raise ValueError(
                f"The symbolic constraints should be a sequence of strings. Got {constraints_str!r}"
            )
        place = here()
        self._made_at = "" if place is None else f" created at {source.describe(place)}"
        for text in constraints_str:
            self._constrain(text)

    def _constrain(self, text: str) -> None:
        if not isinstance(text, str):
            raise ValueError(
                f"The symbolic constraints should be a sequence of strings. Got {text!r}"
            )
        sign = next((sign for sign in ("==", ">=", "<=") if sign in text), None)
        if sign is None:
            raise ValueError(
                "Constraint parsing error: must contain one of '==' or '>=' or '<='\n"
                f"    constraint: {text!r}"
            )
        left, right = (_Parser(part, self, None).alone() for part in text.split(sign, 1))
        if sign == "==":
            self.equal(left, right, text)
        else:
            self.not_negative(left - right if sign == ">=" else right - left, text)

    def __str__(self) -> str:
        first, *rest = super().__str__().partition(" with")
        return first + self._made_at + "".join(rest)

    __repr__ = __str__


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[object] | None = None,
) -> tuple[Any, ...]:
    """A shape with symbolic sizes, for the `ShapeDtypeStruct`s of exported functions.

    shape_spec: sizes with commas between them; a size is a sum of products of integers, variables,
        and floordiv(x, y), mod(x, y), max(x, y), min(x, y), with `^` for powers. `_` is the size of
        `like` at that place, and a final `...` the rest of it.
    constraints: facts about the variables (see `SymbolicScope`). Or scope: the scope of other
    shapes of the program.
    like: a shape of known sizes.
    Raises ValueError for other text, and where it does not fit `like`.

    >>> from teucer import export
    >>> export.symbolic_shape("a, 2*b + 1, _", like=(3, 5, 7))
    (a, 2*b + 1, 7)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("Cannot specify both a `scope` and `constraints`.")
    if shape_spec is None:
        shape_spec = "..."
    if not isinstance(shape_spec, str):
        raise ValueError(
            f"polymorphic shape spec should be None or a string. Found {shape_spec!r}."
        )
    return _Parser(shape_spec, scope, None if like is None else tuple(like)).shape()


def symbolic_args_specs(
    args: Sequence[Value],
    shapes_specs: object,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Arguments as `ShapeDtypeStruct`s with symbolic shapes.

    args: a tree of arrays or ShapeDtypeStructs, usually a tuple. shapes_specs: a prefix of that
        tree, of texts for `symbolic_shape`, where None stands for known sizes. constraints, scope:
        as of `symbolic_shape`.
    Raises ValueError if the trees do not fit, or a text is wrong.

    >>> import numpy as np
    >>> from teucer import export
    >>> export.symbolic_args_specs((np.zeros((2, 3)), np.zeros(3)), ("a, b", "b"))
    (ShapeDtypeStruct(shape=(a, b), dtype=float32), ShapeDtypeStruct(shape=(b,), dtype=float32))
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("Cannot specify both a `scope` and `constraints`.")
    if isinstance(args, tuple) and type(shapes_specs) is list:
        shapes_specs = tuple(shapes_specs)
    leaves, tree = pytrees.tree_flatten(args)
    specs = pytrees.broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None)
    structs = []
    for x, spec in zip(leaves, specs, strict=True):
        shape, dtype = (
            (x.shape, x.dtype)
            if hasattr(x, "shape") and hasattr(x, "dtype")
            else (typeof(x).shape, typeof(x).dtype)
        )
        dtype = dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
        structs.append(ShapeDtypeStruct(symbolic_shape(spec, scope=scope, like=shape), dtype))
    return pytrees.tree_unflatten(tree, structs)


_TOKEN = re.compile(
    r"\s*(?:(?P<NUMBER>\d+)|(?P<NAME>[A-Za-z_]\w*)|(?P<ELLIPSIS>\.\.\.)|(?P<SIGN>[-+*^,()]))"
)
_OPERATIONS = {
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "max": max_dim,
    "min": min_dim,
}


@final
class _Parser:
    """Reads sizes from text. `spec` is shown in errors."""

    def __init__(self, spec: str, scope: Scope, like: tuple[object, ...] | None) -> None:
        self.spec, self.scope, self.like = spec, scope, like
        self.at = 0
        self.dimension = 0

    def shape(self) -> tuple[Any, ...]:
        """Parse the whole text as a shape."""
        sizes: list[Any] = []
        end = ")" if self.accept("(") else None
        while self.next() not in ("", ")"):
            self.dimension = len(sizes)
            if self.next() == "...":
                self.take()
                if len(sizes) > len(self.known()):
                    self.unresolved("...")
                sizes += self.known()[len(sizes) :]
                break
            sizes.append(self.entry())
            if not self.accept(","):
                break
        if end:
            self.expect(end)
        if self.next():
            self.fail("expected ',' or the end")
        return tuple(sizes)

    def alone(self) -> Any:
        """All of the text, as a size."""
        size = self.sum()
        if self.next():
            self.fail("expected the end")
        return size

    def unresolved(self, placeholder: str) -> NoReturn:
        self.fail(
            f"cannot resolve placeholder '{placeholder}' because we parsed {self.dimension} "
            f"already and 'like' shape has only {len(self.known())} dimensions"
        )

    def entry(self) -> Any:
        i = self.dimension
        if self.next() == "_" and self.take():
            if i >= len(self.known()):
                self.unresolved("_")
            return self.known()[i]
        size = self.sum()
        if (
            self.like is not None
            and i < len(self.like)
            and not is_symbolic(size)
            and size != self.like[i]
        ):
            self.fail(f"different size {size} for known dimension; like={self.like}")
        return size

    def known(self) -> tuple[Any, ...]:
        if self.like is None:
            self.fail("spec contains ... but no 'like' shape was given")
        return self.like

    def sum(self) -> Any:
        if not self.accept("-"):
            self.accept("+")
            size = self.product()
        else:
            size = -self.product()
        while self.next() in ("+", "-"):
            size = size + self.product() if self.take() == "+" else size - self.product()
        return size

    def product(self) -> Any:
        size = self.power()
        while self.accept("*"):
            size = size * self.power()
        return size

    def power(self) -> Any:
        size = self.atom()
        return size ** self.integer() if self.accept("^") else size

    def atom(self) -> Any:
        word = self.next()
        if word == "-" and self.take():
            return -self.integer()
        if word.isdigit():
            return self.integer()
        if not word or not (word[0].isalpha() or word[0] == "_"):
            self.fail("expected a number or a name")
        self.take()
        if word not in _OPERATIONS:
            return self.scope.variable(word)
        self.expect("(")
        x = self.sum()
        self.expect(",")
        y = self.sum()
        self.expect(")")
        return _OPERATIONS[word](x, y)

    def integer(self) -> int:
        if not self.next().isdigit():
            self.fail("expected an integer")
        return int(self.take())

    def next(self) -> str:
        """The token that comes, or ''."""
        found = _TOKEN.match(self.spec, self.at)
        if found is None:
            if self.spec[self.at :].strip():
                self.fail(f"unexpected '{self.spec[self.at :].strip()[0]}'")
            return ""
        return found[0].strip()

    def take(self) -> str:
        token = self.next()
        found = _TOKEN.match(self.spec, self.at)
        self.at = len(self.spec) if found is None else found.end()
        return token

    def accept(self, token: str) -> bool:
        return self.next() == token and bool(self.take())

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected '{token}'")

    def fail(self, what: str) -> NoReturn:
        raise ValueError(
            f"syntax error in symbolic shape '{self.spec}' in dimension {self.dimension}: {what}. "
            f"Parsed '{self.spec[: self.at]}', remaining '{self.spec[self.at :]}'."
        )
