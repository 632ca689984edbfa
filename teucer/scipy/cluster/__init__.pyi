# Made by tools/stubs.py from the tables of this module.
from teucer.scipy.cluster import vq as vq
