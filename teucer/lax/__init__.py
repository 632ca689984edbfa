"""The primitives and the functions made of them.

What NumPy's functions and everything else are written in.

Each module is loaded on first use.
"""

import teucer.lax._on_demand  # provides what layers below ask for
from teucer._base import lazy

# What the modules hand on, from their `__all__`: made by tools/stubs.py.
_SOURCES = {
    "teucer.lax._arithmetic": (
        "RoundingMethod abs abs_p add add_p and_p bitwise_and bitwise_not bitwise_or bitwise_xor "
        "ceil ceil_p clamp clamp_p clz clz_p complex complex_p conj conj_p div div_p eq eq_p "
        "eq_to_p floor floor_p ge ge_p gt gt_p imag imag_p integer_pow integer_pow_p is_finite "
        "is_finite_p le le_p le_to_p lt lt_p lt_to_p max max_p min min_p mul mul_p mulhi mulhi_p "
        "ne ne_p neg neg_p nextafter nextafter_p not_p or_p population_count population_count_p "
        "real real_p reciprocal rem rem_p round round_p shift_left shift_left_p "
        "shift_right_arithmetic shift_right_arithmetic_p shift_right_logical shift_right_logical_p "
        "sign sign_p square square_p sub sub_p xor_p"
    ),
    "teucer.lax._collectives.asynchronous": "psum_scatter_start",
    "teucer.lax._collectives.broadcast": "pbroadcast",
    "teucer.lax._collectives.casts": "pcast",
    "teucer.lax._collectives.movement": (
        "all_gather all_gather_p all_to_all all_to_all_p ppermute ppermute_p pshuffle psum_scatter "
        "pswapaxes"
    ),
    "teucer.lax._collectives.ragged": "ragged_all_to_all",
    "teucer.lax._collectives.reductions": (
        "axis_index axis_index_p axis_size pmax pmax_p pmean pmin pmin_p psum psum_p"
    ),
    "teucer.lax._collectives.sends": "precv psend",
    "teucer.lax._composite": "composite composite_p",
    "teucer.lax._control.cond": "cond cond_p switch",
    "teucer.lax._control.iteration": "fori_loop scan",
    "teucer.lax._control.misc": (
        "associative_scan dce_sink dce_sink_p map optimization_barrier optimization_barrier_p "
        "platform_dependent platform_index_p stage"
    ),
    "teucer.lax._control.scan": "scan_p",
    "teucer.lax._control.solves": "custom_linear_solve custom_root linear_solve_p",
    "teucer.lax._control.while_loop": "while_loop while_p",
    "teucer.lax._conversion": (
        "bitcast_convert_type bitcast_convert_type_p convert_element_type convert_element_type_p "
        "copy_p reduce_precision reduce_precision_p stop_gradient stop_gradient_p"
    ),
    "teucer.lax._convolution.forms": (
        "conv_general_dilated_local conv_general_dilated_patches conv_transpose"
    ),
    "teucer.lax._convolution.primitive": (
        "conv conv_general_dilated conv_general_dilated_p conv_with_general_padding"
    ),
    "teucer.lax._convolution.shapes": (
        "ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers conv_dimension_numbers "
        "conv_general_permutations conv_general_shape_tuple conv_shape_tuple "
        "conv_transpose_shape_tuple"
    ),
    "teucer.lax._cumulative": (
        "cumlogsumexp cumlogsumexp_p cummax cummax_p cummin cummin_p cumprod cumprod_p cumsum "
        "cumsum_p"
    ),
    "teucer.lax._dot": "DotDimensionNumbers batch_matmul dot dot_general dot_general_p",
    "teucer.lax._dynamic": (
        "dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_slice_p "
        "dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim "
        "dynamic_update_slice_p index_take"
    ),
    "teucer.lax._elementwise": (
        "AccuracyMode Tolerance acos acos_p acosh acosh_p asin asin_p asinh asinh_p atan atan2 "
        "atan2_p atan_p atanh atanh_p cbrt cbrt_p cos cos_p cosh cosh_p exp exp2 exp2_p exp_p "
        "expm1 expm1_p log log1p log1p_p log2 log2_p log_p logistic logistic_p one_minus_square "
        "one_minus_square_p pow pow_p rsqrt rsqrt_p sin sin_p sinh sinh_p sqrt sqrt_p tan tan_p "
        "tanh tanh_p"
    ),
    "teucer.lax._extremes": "argmax argmax_p argmin argmin_p",
    "teucer.lax._fft": "FftType fft fft_p",
    "teucer.lax._functions.special": (
        "bessel_i0e bessel_i0e_p bessel_i1e bessel_i1e_p betainc digamma digamma_p erf erf_inv "
        "erf_inv_p erf_p erfc erfc_p igamma igamma_grad_a igamma_grad_a_p igamma_p igammac "
        "igammac_p lgamma lgamma_p polygamma polygamma_p random_gamma_grad "
        "regularized_incomplete_beta_p zeta zeta_p"
    ),
    "teucer.lax._indexing.gather": (
        "gather gather_p scatter scatter_add scatter_add_p scatter_apply scatter_max scatter_max_p "
        "scatter_min scatter_min_p scatter_mul scatter_mul_p scatter_p scatter_sub scatter_sub_p"
    ),
    "teucer.lax._indexing.numbers": (
        "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers"
    ),
    "teucer.lax._joining": (
        "concatenate concatenate_p shape_as_value split split_p stack stack_p tile tile_p unstack "
        "unstack_p"
    ),
    "teucer.lax._polynomial": "polynomial polynomial_p",
    "teucer.lax._precision": "DotAlgorithm DotAlgorithmPreset Precision PrecisionLike",
    "teucer.lax._ragged": (
        "RaggedDotDimensionNumbers ragged_dot ragged_dot_general ragged_dot_general_p scaled_dot "
        "scaled_dot_p"
    ),
    "teucer.lax._random": (
        "RandomAlgorithm rng_bit_generator rng_bit_generator_p rng_uniform rng_uniform_p"
    ),
    "teucer.lax._reductions": (
        "reduce reduce_and reduce_and_p reduce_max reduce_max_p reduce_min reduce_min_p reduce_or "
        "reduce_or_p reduce_p reduce_prod reduce_prod_p reduce_sum reduce_xor reduce_xor_p"
    ),
    "teucer.lax._selection": "select select_n select_n_p",
    "teucer.lax._shapes": (
        "broadcast broadcast_in_dim broadcast_like broadcast_shapes broadcast_to_rank "
        "broadcasted_iota collapse dtype empty expand_dims full full_like iota iota_p reshape rev "
        "rev_p squeeze squeeze_p transpose"
    ),
    "teucer.lax._sharding": "sharding_constraint_p with_sharding_constraint",
    "teucer.lax._slicing": "index_in_dim pad pad_p slice slice_in_dim slice_p",
    "teucer.lax._sorting": (
        "approx_max_k approx_min_k approx_top_k_p sort sort_key_val sort_p top_k top_k_p"
    ),
    "teucer.lax._structure": "broadcast_in_dim_p reduce_sum_p reshape_p transpose_p",
    "teucer.lax._tokens": "after_all after_all_p create_token create_token_p",
    "teucer.lax._windows": (
        "padtype_to_pads reduce_window reduce_window_max_p reduce_window_min_p reduce_window_p "
        "reduce_window_shape_tuple reduce_window_sum_p select_and_gather_add_p "
        "select_and_scatter_add_p select_and_scatter_p"
    ),
}


__getattr__, __dir__, __all__ = lazy.lazy_module(
    __name__,
    _SOURCES | {"teucer.lax.linalg": "linalg=.", "teucer._derived.moves": "device_put_p"},
)
