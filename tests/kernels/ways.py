"""A function that calls kernels, run with its kernels compiled for the CPU, interpreted step by step, or as Triton IR in NumPy."""

import contextlib

import numpy as np
from kernels import triton_in_numpy

from teucer import numpy as jnp
from teucer._core.trace import typeof
from teucer._pallas.call import PallasCall
from teucer._pallas.triton.kernel import module_of
from teucer.experimental import pallas as pl


@contextlib.contextmanager
def evaluating(rule):
    """While kernels are called outside of jit, `rule(kernel, operands)` gives their results."""
    before = PallasCall.evaluate
    PallasCall.evaluate = lambda self, *args, kernel, interpret: rule(kernel, args)
    try:
        yield
    finally:
        PallasCall.evaluate = before


def by_triton(kernel, operands):
    """The results of a kernel: its Triton IR, run in NumPy. What nobody writes is 77."""
    module = module_of(kernel, [typeof(x) for x in operands])
    arrays = [np.array(x) for x in operands]
    first = len(operands) - len(kernel.ins)
    alias = {o: first + i for i, o in kernel.aliases}
    outs = [
        arrays[alias[o]] if o in alias else np.full(b.array.shape, 77, b.array.dtype)
        for o, b in enumerate(kernel.outs)
    ]
    triton_in_numpy.run(module.text, module.name, module.grid, [*arrays, *outs])
    return tuple(jnp.asarray(x) for x in outs)


def triton(f, *args):
    with evaluating(by_triton):
        return f(*args)


def lowered(f, *args):
    """The program that calls the kernels on an NVIDIA GPU, as text."""
    import teucer as jax

    return jax.jit(f).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def module(kernel, out, *args, **options):
    """The Triton IR of a kernel for these arguments."""
    found = []

    def keep(kernel, operands):
        found.append(module_of(kernel, [typeof(x) for x in operands]))
        return tuple(jnp.zeros(b.array.shape, b.array.dtype) for b in kernel.outs)

    with evaluating(keep):
        pl.pallas_call(kernel, out, **options)(*args)
    return found[0]
