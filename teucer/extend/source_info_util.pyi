# Made by tools/stubs.py from the tables of this module.
from teucer._core.places import NameStack as NameStack
from teucer._core.places import SourceInfo as SourceInfo
from teucer._jax.source_info_util import Frame as Frame
from teucer._jax.source_info_util import current as current
from teucer._jax.source_info_util import current_name_stack as current_name_stack
from teucer._jax.source_info_util import extend_name_stack as extend_name_stack
from teucer._jax.source_info_util import new_name_stack as new_name_stack
from teucer._jax.source_info_util import new_source_info as new_source_info
from teucer._jax.source_info_util import register_exclusion as register_exclusion
from teucer._jax.source_info_util import reset_name_stack as reset_name_stack
from teucer._jax.source_info_util import set_name_stack as set_name_stack
from teucer._jax.source_info_util import summarize as summarize
from teucer._jax.source_info_util import transform_name_stack as transform_name_stack
from teucer._jax.source_info_util import user_context as user_context
from teucer._jax.source_info_util import user_frame as user_frame
from teucer._jax.source_info_util import user_frames as user_frames
