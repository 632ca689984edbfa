"""What annotations say of functions is so: type checkers accept the calls of the operation table,
and results are what checkers take them for."""

import contextlib
import inspect

import numpy as np
import pytest
import strict_calls
from annotations import Watch, fits
from optable.table import all_ops, precision_of, resolve

import teucer as jax
import teucer.numpy as jnp

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


# Packages whose private functions and rules are watched, too.
WATCHED = ("lax", "numpy", "scipy", "random", "nn", "image", "ops")
WATCHED_IN_EXAMPLES = (*WATCHED, "experimental", "debug", "sharding", "_sharding", "_derived")
# What is not so yet, and why.
UNTRUE = {
    ("numpy/_from_lax.py", "__getattr__", "return"): "what C++ calls has the members of a function",
    ("numpy/_ufuncs.py", "unary", "return"): "as above",
    ("numpy/_ufuncs.py", "binary", "return"): "as above",
    ("numpy/_logic.py", "clip", "return"): "the array of NumPy that is given, without bounds",
    ("numpy/_opt_einsum.py", "_Waiting.find_spec", "path"): "importlib's path is no Sequence",
    ("lax/_tokens.py", "create_token", "return"): "a traced token is a tracer, like traced arrays",
}


def derived(op, dtype):
    """Calls of an operation under `vmap` and of its derivatives, which are only traced."""
    for call in op.calls(dtype)[:2]:
        places = [i for i, x in enumerate(call.args) if isinstance(x, np.ndarray)]
        moving = [
            i for i in places if i not in set(op.constant) and call.args[i].dtype.kind in "fc"
        ]

        def at(chosen, call=call):
            def function(*values):
                given = dict(zip(chosen, values, strict=True))
                return op(*(given.get(i, x) for i, x in enumerate(call.args)), **call.kwargs)

            return function, [call.args[i] for i in chosen]

        function, values = at(moving)
        yield lambda f=function, xs=values: jax.make_jaxpr(
            lambda *zs: jax.tree.map(jnp.zeros_like, jax.vjp(f, *zs)[1](f(*zs)))
        )(*xs)
        function, values = at(places)
        yield lambda f=function, xs=values: jax.make_jaxpr(jax.vmap(f))(
            *(np.stack([x, x]) for x in xs)
        )


def untrue(calls, packages=WATCHED):
    """What annotations say in vain while calls are traced; a call may raise."""
    watch = Watch(*packages)
    for call in calls:
        with contextlib.suppress(Exception), watch:
            call()
    return {key: found for key, found in watch.untrue.items() if key not in UNTRUE}


def traced(calls):
    return [lambda call=call: jax.eval_shape(lambda: (call.run(), 0)[1]) for call in calls]


def derivatives(ops):
    kinds = ("float32", "complex64")
    return [
        call
        for op in ops
        for call in derived(op, next((d for d in kinds if d in op.dtypes), op.quick_dtypes[0]))
    ]


def test_private_functions_and_rules_take_what_they_say_in_some_calls():
    assert untrue(traced(list(strict_calls.rows(True))[::12])) == {}
    assert untrue(derivatives(list(all_ops().values())[::12])) == {}


@pytest.mark.slow
def test_private_functions_and_rules_take_what_they_say():
    assert untrue(traced(strict_calls.rows(True))) == {}
    assert untrue(traced(strict_calls.lines())) == {}
    assert untrue(derivatives(all_ops().values())) == {}


def test_public_functions_take_and_give_what_they_say_in_some_examples():
    """The examples of docstrings, which call every public function, eagerly too."""
    examples = [call.run for call in strict_calls.examples() if "stats" not in call.name]
    assert untrue(examples[::50], WATCHED_IN_EXAMPLES) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(12))
def test_public_functions_take_and_give_what_they_say(part):
    examples = [call.run for call in strict_calls.examples()]
    assert untrue(examples[part::12], WATCHED_IN_EXAMPLES) == {}
