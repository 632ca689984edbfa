# Made by tools/stubs.py from the tables of this module.
from teucer.ops._segments import segment_max as segment_max
from teucer.ops._segments import segment_min as segment_min
from teucer.ops._segments import segment_prod as segment_prod
from teucer.ops._segments import segment_sum as segment_sum
