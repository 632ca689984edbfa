"""Control flow: cond, scan, while_loop, and functions built on them."""
