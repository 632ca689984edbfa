# Made by tools/stubs.py from the tables of this module.
from teucer.scipy.spatial import transform as transform
