"""First-order optimisers of functions of pytrees, each a triple (init_fn, update_fn, params_fn).

    init_fn, update_fn, params_fn = adam(3e-4)
    state = init_fn(params)
    for index, batch in enumerate(batches):
        state = update_fn(index, grad(loss)(params_fn(state), batch), state)

An optimiser is written for one array; the decorator `optimizer` makes it work on any pytree of
arrays. States are pytrees, so that update_fn can be compiled with jit and a state can be carried by
lax.scan. Step sizes are numbers or schedules: functions of the step's index.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import teucer.numpy as jnp
from teucer import tree_util
from teucer._base.lazy import listing

__all__ = [
    "Array", "InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn",
    "Schedule", "State", "Step", "UpdateFn", "Updates", "adagrad", "adam", "adamax", "clip_grads",
    "constant", "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule", "momentum",
    "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant", "polynomial_decay",
    "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

Array = Any
Params = Any  # a pytree of arrays
State = Any  # the optimiser's state for one array
Updates = Any  # a pytree of gradients
Step = int
Schedule = Callable[[Step], float]


class OptimizerState(NamedTuple):
    """The states of all arrays of a parameter tree, flat, with the structures to rebuild the tree.
    A pytree."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree_util.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda trees, children: OptimizerState(children[0], *trees),
)

InitFn = Callable[[Params], OptimizerState]
UpdateFn = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Params]


class Optimizer(NamedTuple):
    """The three functions of an optimiser of pytrees."""

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(
    opt_maker: Callable[..., tuple[Callable, Callable, Callable]],
) -> Callable[..., Optimizer]:
    """Turn a maker of an optimiser of one array into a maker of an optimiser of pytrees of arrays.

    opt_maker(*args) returns init(array) -> state, update(index, gradient, state) -> state and
    get_params(state) -> array; the state is a pytree. The update of the result raises TypeError if
    the gradients are not a tree like the parameters, or if update changes the form of the state.

    >>> @optimizer
    ... def descent(rate):
    ...     return (lambda x: x), (lambda index, gradient, x: x - rate * gradient), (lambda x: x)
    >>> init_fn, update_fn, params_fn = descent(0.5)
    >>> params_fn(update_fn(0, {"w": 2.0}, init_fn({"w": 1.0})))
    {'w': 0.0}
    """

    @functools.wraps(opt_maker)
    def make_optimizer(*args, **kwargs) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_fn(params: Params) -> OptimizerState:
            leaves, tree = tree_util.tree_flatten(params)
            return _pack([init(leaf) for leaf in leaves], tree)

        def update_fn(index: Step, gradients: Updates, state: OptimizerState) -> OptimizerState:
            leaves, tree = tree_util.tree_flatten(gradients)
            if tree != state.tree_def:
                raise TypeError(
                    f"{opt_maker.__name__}: the gradients are not a tree like the parameters.\n"
                    f"  parameters: {state.tree_def}\n  gradients:  {tree}"
                )
            updated = _pack(
                [
                    update(index, leaf, old)
                    for leaf, old in zip(leaves, _states(state), strict=True)
                ],
                tree,
            )
            for before, after in zip(state.subtree_defs, updated.subtree_defs, strict=True):
                if before != after:
                    raise TypeError(
                        f"{opt_maker.__name__}: update returned a state of another form than it "
                        f"was given.\n  given:    {before}\n  returned: {after}"
                    )
            return updated

        def params_fn(state: OptimizerState) -> Params:
            return tree_util.tree_unflatten(state.tree_def, [get_params(s) for s in _states(state)])

        return Optimizer(init_fn, update_fn, params_fn)

    return make_optimizer


def _pack(states: Sequence[State], tree: Any) -> OptimizerState:
    flat = [tree_util.tree_flatten(state) for state in states]
    return OptimizerState(
        tuple(leaves for leaves, _ in flat), tree, tuple(subtree for _, subtree in flat)
    )


def _states(state: OptimizerState) -> list[State]:
    pairs = zip(state.subtree_defs, state.packed_state, strict=True)
    return [tree_util.tree_unflatten(subtree, leaves) for subtree, leaves in pairs]


# Optimisers


@optimizer
def sgd(step_size):
    """Gradient descent: x -= step_size * gradient.

    >>> init_fn, update_fn, params_fn = sgd(0.25)
    >>> params_fn(update_fn(0, 2.0, init_fn(1.0)))
    0.5
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0

    def update(i, g, x):
        return x - step_size(i) * g

    def get_params(x):
        return x

    return init, update, get_params


@optimizer
def momentum(step_size, mass):
    """Gradient descent with momentum: velocity = mass * velocity + gradient; x -= step_size *
    velocity.

    >>> init_fn, update_fn, params_fn = momentum(0.25, mass=0.9)
    >>> float(params_fn(update_fn(0, 2.0, init_fn(1.0))))
    0.5

    Method: Polyak, USSR Comp. Math. and Math. Phys. 4(5) (1964) 1.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * velocity, velocity

    return init, update, _first


@optimizer
def nesterov(step_size, mass):
    """Momentum that looks ahead: velocity = mass * velocity + gradient; x -= step_size * (mass *
    velocity + gradient).

    Method: Sutskever, Martens, Dahl & Hinton, ICML 2013.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * (mass * velocity + g), velocity

    return init, update, _first


@optimizer
def adagrad(step_size, momentum=0.9):
    """Steps divided by the root of the sum of all squared gradients so far, averaged with momentum.

    Method: Duchi, Hazan & Singer, JMLR 12 (2011) 2121.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, squares, mean = state
        squares = squares + jnp.square(g)
        mean = (1 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        return x - step_size(i) * mean, squares, mean

    return init, update, _first


@optimizer
def rmsprop(step_size, gamma=0.9, eps=1e-8):
    """Steps divided by the root of a decaying mean of squared gradients: x -= step_size * gradient
    / sqrt(mean + eps).

    Method: Tieleman & Hinton, Neural Networks for Machine Learning (2012), lecture 6.5.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0)

    def update(i, g, state):
        x, squares = state
        squares = gamma * squares + (1 - gamma) * jnp.square(g)
        return x - step_size(i) * g / jnp.sqrt(squares + eps), squares

    return init, update, _first


@optimizer
def rmsprop_momentum(step_size, gamma=0.9, eps=1e-8, momentum=0.9):
    """The step of rmsprop, accumulated with momentum: velocity = momentum * velocity + step; x -=
    velocity."""
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, squares, velocity = state
        squares = gamma * squares + (1 - gamma) * jnp.square(g)
        velocity = momentum * velocity + step_size(i) * g / jnp.sqrt(squares + eps)
        return x - velocity, squares, velocity

    return init, update, _first


@optimizer
def adam(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """x -= step_size * mean / (sqrt(square) + eps), of decaying means of the gradient and of its
    square.

    Both means are corrected for their start at zero.

    >>> init_fn, update_fn, params_fn = adam(0.5)
    >>> print(f"{params_fn(update_fn(0, 2.0, init_fn(1.0))):.3f}")
    0.500

    Method: Kingma & Ba, arXiv:1412.6980.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, mean, square = state
        mean = (1 - b1) * g + b1 * mean
        square = (1 - b2) * jnp.square(g) + b2 * square
        direction = (mean / _started(b1, i, mean)) / (
            jnp.sqrt(square / _started(b2, i, mean)) + eps
        )
        return x - step_size(i) * direction, mean, square

    return init, update, _first


@optimizer
def adamax(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """Adam with a decaying maximum of |gradient| in place of the mean square.

    Method: Kingma & Ba, arXiv:1412.6980, section 7.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = jnp.maximum(b2 * largest, jnp.abs(g))
        return x - step_size(i) / _started(b1, i, mean) * mean / (largest + eps), mean, largest

    return init, update, _first


@optimizer
def sm3(step_size, momentum=0.9):
    """Adagrad in little memory: of an array's sums of squares only the maxima along each axis are
    kept.

    Method: Anil, Gupta, Koren & Singer, arXiv:1901.11150.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return (
            x0,
            jnp.zeros_like(x0),
            [jnp.zeros(size, jnp.result_type(x0)) for size in jnp.shape(x0) or (1,)],
        )

    def update(i, g, state):
        x, mean, maxima = state
        bound = functools.reduce(jnp.minimum, jnp.ix_(*maxima)) if jnp.ndim(x) else maxima[0][0]
        squares = bound + jnp.square(g)
        mean = (1 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        full = jnp.atleast_1d(squares)
        others = [tuple(a for a in range(full.ndim) if a != axis) for axis in range(full.ndim)]
        return x - step_size(i) * mean, mean, [jnp.max(full, axis=axes) for axes in others]

    return init, update, _first


def _first(state):
    return state[0]


def _started(decay, i, mean):
    """The divisor that corrects a decaying mean which started at zero, after step i, in the dtype
    of the mean."""
    return 1 - jnp.asarray(decay, mean.dtype) ** (i + 1)


def _inverse_root(squares):
    """1 / sqrt(squares), and 0 where no gradient has been yet."""
    return jnp.where(squares > 0, 1 / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


# Schedules


def constant(step_size) -> Schedule:
    """A schedule that is always step_size."""

    def schedule(i):
        return step_size

    return schedule


def exponential_decay(step_size, decay_steps, decay_rate) -> Schedule:
    """step_size * decay_rate ** (i / decay_steps).

    >>> exponential_decay(1.0, decay_steps=10, decay_rate=0.25)(5)
    0.5
    """

    def schedule(i):
        return step_size * decay_rate ** (i / decay_steps)

    return schedule


def inverse_time_decay(step_size, decay_steps, decay_rate, staircase=False) -> Schedule:
    """step_size / (1 + decay_rate * i / decay_steps); with staircase, i / decay_steps is rounded
    down.

    >>> inverse_time_decay(1.0, decay_steps=10, decay_rate=1.0)(10)
    0.5
    """

    def schedule(i):
        elapsed = jnp.floor(i / decay_steps) if staircase else i / decay_steps
        return step_size / (1 + decay_rate * elapsed)

    return schedule


def polynomial_decay(step_size, decay_steps, final_step_size, power=1.0) -> Schedule:
    """From step_size to final_step_size at decay_steps and after, as (1 - i / decay_steps) **
    power.

    >>> float(polynomial_decay(1.0, decay_steps=4, final_step_size=0.0)(3))
    0.25
    """

    def schedule(i):
        left = 1 - jnp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries, values) -> Schedule:
    """values[k] after the first k boundaries: a step equal to a boundary still has the value before
    it.

    boundaries: n increasing steps; values: n + 1 step sizes. Raises ValueError for other lengths or
    more than one dimension.

    >>> float(piecewise_constant([100], [0.5, 0.125])(101))
    0.125
    """
    boundaries = jnp.asarray(boundaries)
    values = jnp.asarray(values)
    if boundaries.ndim != 1 or values.ndim != 1 or len(values) != len(boundaries) + 1:
        raise ValueError(
            "piecewise_constant: boundaries and values must be sequences, values one longer than "
            f"boundaries.\n  boundaries: shape {boundaries.shape}\n  values: shape {values.shape}"
        )

    def schedule(i):
        return values[jnp.sum(i > boundaries)]

    return schedule


def make_schedule(scalar_or_schedule) -> Schedule:
    """A schedule unchanged, or a number as the schedule that is always that number. Raises
    TypeError for anything else.

    >>> make_schedule(0.5)(7)
    0.5
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0 and not isinstance(scalar_or_schedule, str):
        return constant(scalar_or_schedule)
    raise TypeError(
        f"make_schedule: a step size is a number or a function of the step's index.\n"
        f"  scalar_or_schedule: {scalar_or_schedule!r}"
    )


# Gradients as one vector


def l2_norm(tree):
    """The Euclidean norm of all entries of a pytree of arrays together.

    >>> float(l2_norm({"a": jnp.array([3.0]), "b": jnp.array(4.0)}))
    5.0
    """
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in tree_util.tree_leaves(tree)))


def clip_grads(grad_tree, max_norm):
    """The gradients, all scaled by one factor if their l2_norm exceeds max_norm."""
    norm = l2_norm(grad_tree)
    return tree_util.tree_map(
        lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree
    )


# States as trees, to save and load them


class JoinPoint:
    """Marks the place in the tree of the parameters where the state of one array hangs. Functions
    of trees take it for a leaf."""

    def __init__(self, subtree: State) -> None:
        self.subtree = subtree

    def __iter__(self) -> Iterator[State]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState):
    """The state as a tree like the parameters, with a JoinPoint at every leaf that holds the state
    of that array."""
    return tree_util.tree_unflatten(
        opt_state.tree_def, [JoinPoint(state) for state in _states(opt_state)]
    )


def pack_optimizer_state(marked_pytree) -> OptimizerState:
    """The inverse of unpack_optimizer_state."""
    points, tree = tree_util.tree_flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise TypeError(
            "pack_optimizer_state: every leaf must be a JoinPoint, as unpack_optimizer_state "
            f"makes them.\n  tree: {tree}"
        )
    return _pack([point.subtree for point in points], tree)
