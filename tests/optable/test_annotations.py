"""What annotations say of functions is so: type checkers accept the calls of the operation table,
and results are what checkers take them for."""

import inspect

import pytest
from annotations import fits
from optable.table import all_ops, precision_of, resolve

PUBLIC = [op for op in all_ops().values() if isinstance(op.fn, str)]


def function_of(op):
    return inspect.unwrap(resolve(op.fn))


def misfits(values, function):
    """Of named values those that are not what the annotation of the function says."""
    module, said = function.__globals__["__name__"], function.__annotations__
    for name, value in values:
        if name in said and not fits(value, said[name], module):
            yield f"{name}: {said[name]} is {type(value).__name__} {value!r:.80}"


@pytest.mark.parametrize("op", PUBLIC, ids=str)
def test_type_checkers_accept_the_calls_of_the_table(op):
    function = function_of(op)
    parameters = inspect.signature(function).parameters
    for call in op.calls(op.quick_dtypes[0]):
        given = inspect.signature(function).bind(*call.args, **call.kwargs).arguments
        values = []
        for name, value in given.items():
            kind = parameters[name].kind
            several = {kind.VAR_POSITIONAL: tuple, kind.VAR_KEYWORD: lambda kw: kw.values()}
            values += [(name, one) for one in several.get(kind, lambda x: (x,))(value)]
        assert list(misfits(values, function)) == []


@pytest.mark.slow
@pytest.mark.parametrize("op", PUBLIC, ids=str)
def test_results_are_what_checkers_take_them_for(op):
    dtype = op.quick_dtypes[0]
    with precision_of(dtype):
        for call in op.calls(dtype)[:2]:
            result = op(*call.args, **call.kwargs)
            assert list(misfits([("return", result)], function_of(op))) == []
