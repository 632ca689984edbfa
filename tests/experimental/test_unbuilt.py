"""Names of kernels that are not built: they import, and say why when they are used."""

import importlib

import pytest

import teucer
from teucer._experimental import unbuilt

MODULES = {
    "mosaic": "OptLevel.O3 Tiling.COMPACT as_tpu_kernel",
    "mosaic.dialects.tpu": "load store",
    "mosaic.gpu": "FragmentedArray.splat TCGEN05_LAYOUT c",
    "mosaic.gpu.profiler": "Cupti",
    "mosaic.gpu.utils": "bitcast when",
    "pallas.mosaic_gpu": "Barrier Tiling.SMEM TMEM wgmma planar_snake",
    "pallas.ops.gpu.attention": "mha_forward_kernel",
    "pallas.ops.gpu.attention_mgpu": "attention",
    "pallas.ops.tpu.flash_attention": "_verify_block",
    "pallas.ops.tpu.splash_attention.splash_attention_mask_info": "process_mask",
    "pallas.tpu": "BufferedRef TpuInfo stateful_uniform",
    "pallas.tpu_sc": "VectorSubcoreMesh PackFormat.INTERLEAVED",
}


@pytest.mark.parametrize("module", MODULES)
def test_names_import_and_say_why_they_cannot_be_used(module):
    place = importlib.import_module(f"teucer.experimental.{module}")
    for name in MODULES[module].split():
        value = place
        for part in name.split("."):
            value = getattr(value, part)
            assert isinstance(value, type)
        said = rf"jax\.experimental\.{module}\.{name}: .*not"
        with pytest.raises(NotImplementedError, match=f"(?s){said}"):
            value(1, option=2)
        assert name.partition(".")[0] in dir(place)
        assert value | None and list[value] and isinstance(value, unbuilt._Unbuilt)
        assert not isinstance(1, value)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        place.no_such_name  # noqa: B018  # reading it raises
    with pytest.raises(ImportError):
        exec(f"from teucer.experimental.{module} import no_such_name")


def test_subclasses_and_descriptions_and_decorated_functions():
    from teucer.experimental.pallas import mosaic_gpu

    class Swizzle(mosaic_gpu.Transform):
        pass

    with pytest.raises(NotImplementedError, match="Transform"):
        Swizzle()
    # Tables of layouts are written as libraries are imported.
    layout = mosaic_gpu.Layout.WGMMA.reduce((0,))
    assert "WGMMA.reduce(...), which is not built" in repr(layout)
    with pytest.raises(NotImplementedError, match=r"mosaic_gpu\.Layout:"):
        mosaic_gpu.Layout(1)

    @mosaic_gpu.inline_mgpu(arg_types=(layout,))
    def multiply(x):
        return x

    with pytest.raises(NotImplementedError, match="inline_mgpu of multiply"):
        multiply(1)
    assert teucer.experimental.pallas.mosaic_gpu.BlockSpec is mosaic_gpu.BlockSpec
