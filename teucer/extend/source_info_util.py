"""Where operations stand in the user's program: its line and the name scopes in force."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._core.places": "NameStack SourceInfo",
        "teucer._jax.source_info_util": (
            "Frame current current_name_stack extend_name_stack new_name_stack new_source_info "
            "register_exclusion reset_name_stack set_name_stack summarize transform_name_stack "
            "user_context user_frame user_frames"
        ),
    },
)
