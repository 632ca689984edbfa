"""Types that say how values lie over meshes."""
