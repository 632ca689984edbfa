"""Collectives: communication among the elements of named axes (`vmap(axis_name=...)`).

Under the batching of its own axis a collective is an ordinary operation on the batch. One over
several axes is done one axis after another; the elements are numbered with the last of the axes
running fastest.
"""
