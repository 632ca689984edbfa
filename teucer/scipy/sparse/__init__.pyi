# Made by tools/stubs.py from the tables of this module.
from teucer.scipy.sparse import linalg as linalg
