# Made by tools/stubs.py from the tables of this module.
from teucer.scipy import cluster as cluster
from teucer.scipy import fft as fft
from teucer.scipy import integrate as integrate
from teucer.scipy import interpolate as interpolate
from teucer.scipy import linalg as linalg
from teucer.scipy import ndimage as ndimage
from teucer.scipy import optimize as optimize
from teucer.scipy import signal as signal
from teucer.scipy import sparse as sparse
from teucer.scipy import spatial as spatial
from teucer.scipy import special as special
from teucer.scipy import stats as stats
