"""Control flow: cond, scan, while_loop, and what is built on them."""
