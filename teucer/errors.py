"""The exceptions that Teucer raises of its own; everything else is a plain ValueError, TypeError or
IndexError."""

from teucer._base.errors import ConcretizationTypeError as ConcretizationTypeError
from teucer._base.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from teucer._base.errors import JAXIndexError as JAXIndexError
from teucer._base.errors import JaxprTypeError as JaxprTypeError
from teucer._base.errors import JaxRuntimeError as JaxRuntimeError
from teucer._base.errors import JAXTypeError as JAXTypeError
from teucer._base.errors import KeyReuseError as KeyReuseError
from teucer._base.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from teucer._base.errors import TracerArrayConversionError as TracerArrayConversionError
from teucer._base.errors import TracerBoolConversionError as TracerBoolConversionError
from teucer._base.errors import TracerIntegerConversionError as TracerIntegerConversionError
from teucer._base.errors import UnexpectedTracerError as UnexpectedTracerError
