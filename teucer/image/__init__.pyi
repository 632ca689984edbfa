# Made by tools/stubs.py from the tables of this module.
from teucer.image._resize import ResizeMethod as ResizeMethod
from teucer.image._resize import resize as resize
from teucer.image._resize import scale_and_translate as scale_and_translate
