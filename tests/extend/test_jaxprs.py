"""Jaxprs transformed for libraries that interpret them. The forms are those of JAX 0.12.0.1."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.extend.core import Primitive, jaxpr_as_fun
from teucer.interpreters import ad
from teucer.interpreters import partial_eval as pe

X, Y = np.float32(0.3), np.arange(3, dtype="float32")


def f(x, y):
    return jnp.sin(x) * y, x + 1, y.sum()


CLOSED = jax.make_jaxpr(f)(X, Y)


def close(got, want):
    np.testing.assert_allclose(
        np.concatenate([np.ravel(x) for x in got]),
        np.concatenate([np.ravel(x) for x in want]),
        rtol=1e-6,
    )


@pytest.mark.parametrize("unknown", [(False, True), (True, False), (True, True), (False, False)])
@pytest.mark.parametrize("instantiate", [False, True, [False, True, True]])
def test_both_parts_are_the_whole(unknown, instantiate):
    known, rest, unknown_out, residuals = pe.partial_eval_jaxpr_nounits(
        CLOSED, list(unknown), instantiate
    )
    assert [a.shape for a in known.out_avals[unknown_out.count(False) :]] == [
        r.shape for r in residuals
    ]
    outs = jaxpr_as_fun(known)(*[x for x, u in zip((X, Y), unknown, strict=True) if not u])
    known_outs, values = outs[: unknown_out.count(False)], outs[unknown_out.count(False) :]
    others = jaxpr_as_fun(rest)(*values, *[x for x, u in zip((X, Y), unknown, strict=True) if u])
    first, second = iter(known_outs), iter(others)
    close([next(second if u else first) for u in unknown_out], f(X, Y))


def test_tangents_of_a_jaxpr():
    for form in (CLOSED, CLOSED.jaxpr):
        jvp, moving = ad.jvp_jaxpr(form, [True, False], False)
        assert moving == [True, True, False]
        out, tangents = jax.jvp(lambda x: f(x, Y), (X,), (2.0,))
        close(jaxpr_as_fun(jvp)(X, Y, np.float32(2)), [*out, *tangents[:2]])
        assert ad.jvp_jaxpr(form, [True, False], True)[1] == [True] * 3


def test_cotangents_of_a_jaxpr():
    closed = jax.make_jaxpr(lambda x, y: (3 * x, y * x.sum()))(Y, X)
    given = [ad.UndefinedPrimal(closed.in_avals[0]), X]
    found = ad.backward_pass(closed.jaxpr, False, closed.consts, given, [Y, X])
    close([found[0]], [3 * Y + X * X])
    assert found[1] is None
    with pytest.raises(NotImplementedError, match="no logs of backward passes"):
        ad.backward_pass(closed.jaxpr, False, [], given, [Y, X], return_logs=True)


def test_parts_of_jaxprs():
    constant = jnp.arange(3.0)
    closed = jax.make_jaxpr(lambda y: y * constant)(Y)
    whole = pe.close_jaxpr(pe.convert_constvars_jaxpr(closed.jaxpr))
    close(jaxpr_as_fun(whole)(*closed.consts, Y), [Y * constant])
    assert pe.close_jaxpr(closed) is closed
    if closed.jaxpr.constvars:
        with pytest.raises(ValueError, match="close_jaxpr: the jaxpr has constants"):
            pe.close_jaxpr(closed.jaxpr)
    moved = pe.move_binders_to_back(CLOSED, [True, False])
    close(jaxpr_as_fun(moved)(Y, X), f(X, Y))
    fewer = pe.prune_closed_jaxpr_outputs(CLOSED, [True, False, True])
    close(jaxpr_as_fun(fewer)(X, Y), [f(X, Y)[0], f(X, Y)[2]])
    assert len(fewer.eqns) == len(CLOSED.eqns)
    info = jax.api_util.debug_info("test", f, (X, Y), {})
    assert pe.abstract_eval_fun(f, *CLOSED.in_avals, debug_info=info) == CLOSED.out_avals


def test_rules_for_dead_code():
    pair_p = Primitive("pair")
    pair_p.multiple_results = True
    pair_p.def_impl(lambda x, y: [2 * x, 3 * y])
    pair_p.def_abstract_eval(lambda x, y: [x, y])
    assert pair_p not in pe.dce_rules
    closed = jax.make_jaxpr(lambda x, y: pair_p.bind(x + 1, y - 1))(X, Y)
    assert len(pe.dce_jaxpr(closed.jaxpr, [True, False])[0].eqns) == 3
    seen = []

    def rule(used, eqn):
        seen.append(used)
        invars = [v for v, u in zip(eqn.invars, used, strict=True) if u]
        outvars = [v for v, u in zip(eqn.outvars, used, strict=True) if u]
        return used, eqn.replace(invars=invars, outvars=outvars)

    pe.dce_rules[pair_p] = rule
    live, used = pe.dce_jaxpr(closed.jaxpr, [False, True])
    assert seen == [[False, True]] and used == [False, True]
    assert [str(e.primitive) for e in live.eqns] == ["sub", "pair"]
    scanned = jax.make_jaxpr(
        lambda x, y: jax.lax.scan(lambda c, _: ((c[0] + 1, c[1] * 2), None), (x, y), length=3)[0]
    )(X, Y)
    used, eqn = pe.dce_rules[jax.lax.scan_p]([True, False], scanned.eqns[-1])
    assert used == [True, False] and len(eqn.outvars) == len(eqn.invars) == 1
    assert pe.dce_rules[jax.lax.scan_p]([False, False], scanned.eqns[-1])[1] is None
