"""Programs for runtimes behind IFRT, in jaxlib's own words.

>>> ifrt_programs.CompileOptions.__name__
'CompileOptions'
"""

from teucer._xla.platforms.proxy import ifrt_programs

__all__ = ["ifrt_programs"]
