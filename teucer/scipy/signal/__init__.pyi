# Made by tools/stubs.py from the tables of this module.
from teucer.scipy.signal._convolutions import convolve as convolve
from teucer.scipy.signal._convolutions import convolve2d as convolve2d
from teucer.scipy.signal._convolutions import correlate as correlate
from teucer.scipy.signal._convolutions import correlate2d as correlate2d
from teucer.scipy.signal._convolutions import fftconvolve as fftconvolve
from teucer.scipy.signal._spectra import csd as csd
from teucer.scipy.signal._spectra import detrend as detrend
from teucer.scipy.signal._spectra import istft as istft
from teucer.scipy.signal._spectra import stft as stft
from teucer.scipy.signal._spectra import welch as welch
