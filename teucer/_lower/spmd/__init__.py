"""Programs over meshes: what is written for each device by hand."""
