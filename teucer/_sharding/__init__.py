"""Programs written for each device of a mesh, and divisions that their author says."""
