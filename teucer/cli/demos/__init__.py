"""The two programs of `teucer demo`; examples/ links to them."""
