"""The checker of jaxprs refuses what is not well formed, and names the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teucer import lax
from teucer._base import config
from teucer._base.errors import JaxprTypeError
from teucer._core.jaxpr import Jaxpr, Literal, Var, new_eqn
from teucer._core.primitive import Primitive
from teucer._core.types import ShapedArray
from teucer._derived.staging import make_jaxpr
from teucer._optimize.checker import check_jaxpr
from teucer._transform.jit import jit

F32 = ShapedArray((2,), np.dtype(np.float32))
I32 = ShapedArray((2,), np.dtype(np.int32))


def line(aval: Any = F32, out: Any = F32) -> tuple[Var, Var, Any]:
    """x, y and the equation y = sin x."""
    x, y = Var(aval), Var(out)
    return x, y, new_eqn(lax.sin_p, [x], [y], {})


def test_what_is_traced_is_well_formed() -> None:
    closed = make_jaxpr(lambda x: jit(lambda v: lax.cond(v[0] > 0, lax.sin, lax.cos, v))(x))(
        np.ones(2, np.float32)
    )
    check_jaxpr(closed.jaxpr)


def test_defined_once_C1() -> None:
    x, y, eqn = line()
    with pytest.raises(JaxprTypeError, match=r"(?s)defined twice \(C1\).*float32\[2\].*sin"):
        check_jaxpr(Jaxpr([], [x], [y], [eqn, eqn]))
    with pytest.raises(JaxprTypeError, match=r"(?s)defined twice \(C1\).*arguments"):
        check_jaxpr(Jaxpr([x], [x], [x], []))


def test_defined_before_used_C2() -> None:
    x, y, eqn = line()
    with pytest.raises(JaxprTypeError, match=r"(?s)used and not defined before \(C2\).*sin"):
        check_jaxpr(Jaxpr([], [], [y], [eqn]))
    with pytest.raises(JaxprTypeError, match=r"(?s)used and not defined before \(C2\).*results"):
        check_jaxpr(Jaxpr([], [x], [y], []))


def test_literal_has_type_of_value_C3() -> None:
    literal = Literal(np.float32(1), ShapedArray((), np.dtype(np.int32)))
    with pytest.raises(JaxprTypeError, match=r"(?s)literal.*\(C3\).*int32\[\].*float32\[\]"):
        check_jaxpr(Jaxpr([], [], [literal], []))


def test_results_have_types_of_primitive_C4() -> None:
    x, y, eqn = line(out=I32)
    with pytest.raises(
        JaxprTypeError, match=r"(?s)other types.*\(C4\).*primitive: .*float32.*equation: .*int32"
    ):
        check_jaxpr(Jaxpr([], [x], [y], [eqn]))
    x, y, eqn = line(aval=I32)
    with pytest.raises(JaxprTypeError, match=r"(?s)refuses.*\(C4\).*int32") as caught:
        check_jaxpr(Jaxpr([], [x], [y], [eqn]))
    assert "sin does not accept dtype int32" in str(caught.value.__cause__)


def test_effects_are_those_of_equations_C5() -> None:
    x, y, eqn = line()
    with pytest.raises(JaxprTypeError, match=r"(?s)other effects.*\(C5\)"):
        check_jaxpr(Jaxpr([], [x], [y], [eqn.replace(effects=frozenset({"print"}))]))
    with pytest.raises(JaxprTypeError, match=r"(?s)other effects.*\(C5\)|lacks effects.*\(C5\)"):
        check_jaxpr(
            Jaxpr([], [x], [y], [eqn.replace(effects=frozenset({"print"}))], effects=frozenset())
        )


def test_inner_jaxprs_are_checked() -> None:
    closed = make_jaxpr(lambda x: jit(lambda v: lax.sin(v) * v)(x))(np.ones(2, np.float32))
    (eqn,) = closed.jaxpr.eqns
    inner = eqn.params["jaxpr"].jaxpr
    broken = eqn.params["jaxpr"].replace(jaxpr=inner.replace(eqns=inner.eqns[1:]))
    outer = closed.jaxpr.replace(eqns=[eqn.replace(params={**eqn.params, "jaxpr": broken})])
    with pytest.raises(JaxprTypeError, match=r"\(C2\)"):
        check_jaxpr(outer)


def test_option_checks_what_is_traced() -> None:
    """With jax_enable_checks a primitive whose results are not what it says is found where it is
    traced."""

    class Fickle(Primitive):
        name = "fickle"
        calls = 0

        def types(self, x: Any) -> Any:
            type(self).calls += 1
            return (x if self.calls % 2 else I32,)

    fickle = Fickle()
    for check in (True, False):
        Fickle.calls = 0
        with config.enable_checks(check):
            if check:
                with pytest.raises(JaxprTypeError, match="fickle"):
                    make_jaxpr(lambda x: fickle.call(x)[0])(np.ones(2, np.float32))
            else:
                make_jaxpr(lambda x: fickle.call(x)[0])(np.ones(2, np.float32))
