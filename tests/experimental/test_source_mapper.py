"""Source maps of jaxprs, StableHLO and HLO."""

import re

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import source_mapper


def f(x):
    y = jnp.sin(x)  # first
    return y * 2


@pytest.mark.parametrize("name", ["jaxpr", "hlo:stable-hlo", "hlo:original", "hlo:optimized"])
def test_each_form_says_the_lines(name):
    (dump,) = source_mapper.generate_sourcemaps(f, source_mapper.filter_passes(name))(1.0)
    assert dump.pass_name == name and dump.source_map.sources == [
        source_mapper.canonicalize_filename(__file__)
    ]
    lines = {segment[2] for line in dump.source_map.mappings for segment in line}
    first = f.__code__.co_firstlineno
    assert {first, first + 1} <= lines
    assert len(dump.source_map.mappings) == len(dump.generated_code.split("\n")) + 1
    assert not name.startswith("hlo") or re.search(r"odule @?jit_f[ ,]", dump.generated_code)


def test_segments_point_at_the_equations():
    (dump,) = source_mapper.generate_sourcemaps(jax.jit(f), source_mapper.filter_passes("jaxpr"))(
        1.0
    )
    text = dump.generated_code.split("\n")
    starts = [
        text[i][segment[0] :].split("[")[0].split()[0]
        for i, line in enumerate(dump.source_map.mappings)
        for segment in line
    ]
    assert starts == ["jit", "sin", "mul"]


def test_json_gives_the_same_map():
    generator = source_mapper.MappingsGenerator()
    with pytest.raises(RuntimeError, match="new_group"):
        generator.new_segment(1)
    for segments in ([(4, 0, 160, 1), (900, 1, 3, 0)], [], [(0,), (7, 0, 0, 33)]):
        generator.new_group()
        for segment in segments:
            generator.new_segment(*segment)
    made = source_mapper.SourceMap(3, ["a", "b"], [], [], generator.mappings())
    assert source_mapper.SourceMap.from_json(made.to_json()) == made


def test_passes_and_options():
    with pytest.raises(ValueError, match="already registered"):
        source_mapper.register_pass(source_mapper.all_passes()[0])
    compiled = source_mapper.compile_with_env(f, (1.0,), {}, {"jax_log_compiles": False}, {})
    assert "test_source_mapper.py" in compiled.as_text()
