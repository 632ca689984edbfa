"""Programs written for each device of a mesh: what types say of them."""
