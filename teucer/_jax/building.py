"""Operations built with jaxlib's bindings of MLIR, for lowering rules of libraries.

Types and attributes come as text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from teucer._xla.mlir import JaxIrContext, ir
from teucer._xla.mlir import func as func_dialect
from teucer._xla.mlir import stablehlo as hlo
from teucer._xla.pytree import Registry

__all__ = [
    "Draft", "attribute", "broadcast_scalars", "constant", "context", "custom_call", "flat",
    "func_dialect", "hlo", "int_attribute", "ir", "merge", "registry", "to_bytecode", "to_text",
    "token_type", "type_of",
]  # fmt: skip

# Trees of values: the tuples and lists that rules return.
registry = Registry(
    enable_none=False,
    enable_tuple=True,
    enable_namedtuple=False,
    enable_list=True,
    enable_dict=False,
)


@functools.cache
def context() -> JaxIrContext:
    """The context in which rules build, made when the first one does."""
    made = JaxIrContext()
    made.load()
    return made


def type_of(text: str) -> Any:
    """The type that a text says."""
    return ir.Type.parse(text)


def attribute(text: str) -> Any:
    """The attribute that a text says."""
    return ir.Attribute.parse(text)


def int_attribute(value: int, bits: int) -> Any:
    """An integer of so many bits as an attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), value)


def token_type() -> Any:
    """The type of StableHLO's tokens."""
    return hlo.TokenType.get()


def constant(text: str) -> Any:
    """The value of a new constant. text: its elements and type."""
    return hlo.constant(ir.Attribute.parse(text))


def broadcast_scalars(sizes: Sequence[object]) -> Any:
    """A vector of scalars, values of i32 each, as a new value."""
    one = ir.RankedTensorType.get((1,), ir.IntegerType.get_signless(32))
    rows = [hlo.reshape(one, size) for size in sizes]
    return (
        rows[0]
        if len(rows) == 1
        else hlo.concatenate(rows, dimension=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0))
    )


def custom_call(
    call_target_name: str,
    *,
    result_types: Sequence[object],
    operands: Sequence[object],
    backend_config: str | bytes | Mapping[str, object] = "",
    has_side_effect: bool = False,
    result_shapes: Sequence[object] | None = None,
    called_computations: Sequence[str] = (),
    api_version: int = 2,
    operand_output_aliases: Mapping[int, int] | None = None,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    extra_attributes: Mapping[str, object] | None = None,
) -> Any:
    """An operation that calls a foreign function.

    backend_config: text for the function, or attributes by name for one that is typed.
    result_shapes: for each result with an unknown size, a value with its sizes; they become
    the last operands. called_computations: functions of the module. Layouts are axes from minor to
    major.
    """
    attributes = dict(extra_attributes or {})
    if not isinstance(backend_config, str | bytes):  # in the form that JAX's programs have
        attributes["mhlo.backend_config"] = ir.DictAttr.get(dict(backend_config))
        backend_config, api_version = "", 1
    attributes |= {
        "call_target_name": ir.StringAttr.get(call_target_name),
        "has_side_effect": ir.BoolAttr.get(has_side_effect),
        "backend_config": ir.StringAttr.get(backend_config),
        "api_version": int_attribute(api_version, 32),
        "called_computations": ir.ArrayAttr.get(
            [ir.FlatSymbolRefAttr.get(name) for name in called_computations]
        ),
    }
    if operand_output_aliases:
        several = len(result_types) > 1
        attributes["output_operand_aliases"] = ir.ArrayAttr.get(
            [
                hlo.OutputOperandAlias.get(
                    output_tuple_indices=[out] if several else [],
                    operand_index=i,
                    operand_tuple_indices=[],
                )
                for i, out in operand_output_aliases.items()
            ]
        )
    every = list(operands)
    if result_shapes is not None:
        n = len(every)
        every += result_shapes
        attributes["indices_of_shape_operands"] = _indices(range(n, len(every)), 64)
        if operand_layouts is not None:  # sizes are vectors
            operand_layouts = [*operand_layouts, *[(0,)] * len(result_shapes)]
    for name, layouts in (("operand_layouts", operand_layouts), ("result_layouts", result_layouts)):
        if layouts is not None:
            attributes[name] = ir.ArrayAttr.get([_indices(order) for order in layouts])
    made = hlo.CustomCallOp.build_generic(
        results=list(result_types), operands=every, attributes=attributes
    )
    return made.opview if isinstance(made, ir.Operation) else made


def _indices(order: Sequence[int], bits: int | None = None) -> Any:
    """Integers as elements of a dense attribute, of type `index` unless they have so many bits."""
    kind = ir.IndexType.get() if bits is None else ir.IntegerType.get_signless(bits)
    return ir.DenseIntElementsAttr.get(np.asarray(order, np.int64), type=kind)


def flat(values: object) -> list[Any]:
    """The values that a rule returned: a value, an operation, or sequences of them."""
    if isinstance(values, tuple | list | ir.OpResultList):
        return [y for x in values for y in flat(x)]
    if isinstance(values, ir.OpView | ir.Operation):
        return list(values.results)
    return [values]


def to_text(module: Any, *, locations: bool = False) -> str:
    """A module as people read it."""
    text: str = module.operation.get_asm(enable_debug_info=locations)
    return text


def to_bytecode(module: Any) -> bytes:
    """A module as MLIR's bytecode."""
    import io  # for this only

    out = io.BytesIO()
    module.operation.write_bytecode(file=out)
    return out.getvalue()


def merge(target: Any, name: str, source: Any, symbols: Any = None) -> str:
    """Move the functions of a module into another as private ones; gives the new name of its
    `main`.

    Names are changed where the target has them. Nothing of `source` can be used afterwards.
    """
    symbols = ir.SymbolTable(target.operation) if symbols is None else symbols
    taken = {
        ir.StringAttr(op.attributes["sym_name"]).value
        for op in target.body.operations
        if "sym_name" in op.attributes
    }
    renamed = ""
    for op in list(source.body.operations):
        own = ir.StringAttr(op.attributes["sym_name"]).value
        new = _free(name if own == "main" else own, taken)
        taken.add(new)
        if new != own:
            ir.SymbolTable.replace_all_symbol_uses(own, new, source.operation)
            ir.SymbolTable.set_symbol_name(op, new)
        op.attributes["sym_visibility"] = ir.StringAttr.get("private")
        renamed = new if own == "main" else renamed
    for op in list(source.body.operations):
        op.operation.detach_from_parent()
        target.body.append(op)
        symbols.insert(op)
    return renamed


def _free(name: str, taken: set[str]) -> str:
    return (
        name
        if name not in taken
        else next(n for i in range(len(taken) + 1) if (n := f"{name}_{i}") not in taken)
    )


@final
class Draft:
    """A module in which one rule builds: a function of its operands, and whatever else the rule
    adds."""

    def __init__(self) -> None:
        self.context = context()
        with self.context, ir.Location.unknown():
            self.module = ir.Module.create()
        self.symbols = ir.SymbolTable(self.module.operation)
        self._declared: set[str] = set()
        # The arguments of the function being built that stand before the operands: sizes, the
        # platform's number.
        self.scalars: Sequence[Any] = ()

    def define(
        self,
        name: str,
        operands: Sequence[str],
        results: Sequence[str],
        body: Callable[..., object],
    ) -> str:
        """Build the function `name` by `body`, called with its arguments in force of a location;
        the module's text.

        Raises ValueError if `body` returns values of other types, or builds an invalid module.
        """
        with self.context, ir.Location.name(name):
            kind = ir.FunctionType.get(
                [ir.Type.parse(t) for t in operands], [ir.Type.parse(t) for t in results]
            )
            with ir.InsertionPoint(self.module.body):
                function = func_dialect.FuncOp(name, kind, visibility="private")
            self.symbols.insert(function)
            with ir.InsertionPoint(function.add_entry_block()):
                values = flat(body(*function.arguments))
                for value in values:
                    if not isinstance(value, ir.Value):
                        raise TypeError(
                            f"a lowering rule returns values of MLIR, got {value!r} of type "
                            f"{type(value)}"
                        )
                if [v.type for v in values] != list(kind.results):
                    raise ValueError(
                        f"the lowering gives {[str(v.type) for v in values]}, "
                        f"the abstract evaluation {list(results)}."
                    )
                func_dialect.ReturnOp(values)
            try:
                self.module.operation.verify()
            except ir.MLIRError as err:
                raise ValueError(f"Cannot lower jaxpr with verifier errors: {err}") from err
        return name

    def rename(self, unique: Callable[[str], str], keep: str) -> None:
        """Rename functions that the rule added by `unique`."""
        with self.context:
            for op in self.module.body.operations:
                name = ir.StringAttr(op.attributes["sym_name"]).value
                if name != keep and name not in self._declared:
                    new = unique(name)
                    ir.SymbolTable.replace_all_symbol_uses(name, new, self.module.operation)
                    ir.SymbolTable.set_symbol_name(op, new)
                    op.attributes["sym_visibility"] = ir.StringAttr.get("private")

    def texts(self) -> list[str]:
        """The functions as text, without mere declarations."""
        return [
            op.get_asm(print_generic_op_form=True, use_local_scope=True)
            for op in self.module.body.operations
            if ir.StringAttr(op.attributes["sym_name"]).value not in self._declared
        ]

    def declare(self, name: str, operands: Sequence[str], results: Sequence[str]) -> Any:
        """A function that is written elsewhere, as an operation that says its type."""
        with ir.InsertionPoint(self.module.body):
            kind = ir.FunctionType.get(
                [ir.Type.parse(t) for t in operands], [ir.Type.parse(t) for t in results]
            )
            function = func_dialect.FuncOp(name, kind, visibility="private")
        self.symbols.insert(function)
        self._declared.add(name)
        return function

    def call(self, function: object, operands: Sequence[object]) -> list[Any]:
        """Call a function of the module; its results."""
        return list(func_dialect.CallOp(function, list(operands)).results)
