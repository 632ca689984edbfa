"""Functions of neural networks."""

from teucer._base.lazy import lazy_module
from teucer._derived.library_stages import with_stages as _with_stages

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer.nn.initializers": "initializers=.",
        "teucer.nn._activations": (
            "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu "
            "log1mexp log_sigmoid mish relu relu6 selu sigmoid silu soft_sign softplus "
            "sparse_plus sparse_sigmoid squareplus swish tanh"
        ),
        "teucer.nn._attention": "dot_product_attention scaled_matmul",
        "teucer.nn._scaled_dot": "get_scaled_dot_general_config scaled_dot_general",
        "teucer.nn._normalizations": "log_softmax logmeanexp logsumexp one_hot softmax standardize",
    },
    finish=_with_stages,
)
