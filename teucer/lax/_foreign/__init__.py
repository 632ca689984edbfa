"""Calls of foreign functions, and lowering rules that write one."""
