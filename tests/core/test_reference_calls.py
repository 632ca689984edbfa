"""Calls of jitted functions on references: C++ runs the program, in place."""

import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp


def python_calls(f, *args):
    seen = []
    sys.setprofile(lambda frame, event, _: event == "call" and seen.append(frame.f_code.co_name))
    try:
        f(*args)
    finally:
        sys.setprofile(None)
    return seen


@jax.jit
def step(refs, x):
    refs["a"][0] += x
    refs["b"][...] = refs["c"][...] * x
    return refs["c"][1]


def refs_of(n):
    return {name: jax.new_ref(jnp.full(n, 1.0 + i)) for i, name in enumerate("abc")}


def test_cached_calls_stay_in_cpp_and_in_place():
    refs, others = refs_of(1000), refs_of(1000)
    step(refs, 2.0)
    address = refs["a"].unsafe_buffer_pointer()
    assert python_calls(step, refs, 2.0) == ["_part"] * 3 + ["_put_together", "write_given"]
    assert refs["a"].unsafe_buffer_pointer() == address
    assert step(others, 3.0) == 3  # what is called with other references writes those
    assert (refs["a"][0], others["a"][0], refs["b"][5], others["b"][5]) == (5, 4, 6, 9)


def test_aliases_and_ended_references_are_refused_after_a_cached_call():
    refs = refs_of(3)
    step(refs, 1.0)
    step(refs, 1.0)
    with pytest.raises(ValueError, match="appeared at both refs"):
        step({"a": refs["a"], "b": refs["a"], "c": refs["c"]}, 1.0)
    step(refs, 1.0)
    np.testing.assert_array_equal(refs["a"][...], [4, 1, 1])
    jax.freeze(refs["c"])
    with pytest.raises(ValueError, match="used after it was frozen"):
        step(refs, 1.0)


def test_an_error_between_calls_mixes_nothing_up():
    class Broken:
        pass

    def fail(node):
        raise RuntimeError("no children")

    jax.tree_util.register_pytree_node(Broken, fail, lambda _, children: Broken())
    refs = refs_of(3)
    f = jax.jit(lambda a, x: a.at[0].addupdate(1.0))
    f(refs["a"], 1.0)
    with pytest.raises(RuntimeError, match="no children"):
        f(refs["b"], Broken())
    f(refs["a"], 1.0)
    f(refs["b"], 1.0)
    f(refs["a"], 1.0)
    assert (refs["a"][0], refs["b"][0]) == (4, 3)


def test_references_are_leaves_of_trees_all_the_same():
    ref = jax.new_ref(1.0)
    assert jax.tree.leaves([ref, {"x": ref}]) == [ref, ref]
    f = jax.jit(lambda tree, *, ref: tree["x"] * 2 + ref[...])
    assert f({"x": 1.0}, ref=ref) == f({"x": 1.0}, ref=ref) == 3


def test_other_types_of_references_are_other_programs():
    f = jax.jit(lambda ref: ref[...] * 2)
    assert f(jax.new_ref(1.0)) == 2
    np.testing.assert_array_equal(f(jax.new_ref(jnp.ones(2))), [2, 2])
    assert f(jax.new_ref(3)).dtype == jnp.int32
    assert f(jax.new_ref(1.0, kind="no_grad_no_remat")) == 2


def test_closed_over_references_are_read_at_each_call():
    ref = jax.new_ref(1.0)

    @jax.jit
    def f(other):
        ref[...] += other[...]

    for _ in range(3):
        f(jax.new_ref(2.0))
    assert ref[...] == 7
