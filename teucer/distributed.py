"""Several processes that run one program: `initialize` connects them."""

from teucer._devices.joining import initialize as initialize
from teucer._devices.joining import is_initialized as is_initialized
from teucer._devices.joining import shutdown as shutdown
from teucer._devices.processes import DifferentValues as DifferentValues
from teucer._devices.processes import ProcessFailure as ProcessFailure

__all__ = ["DifferentValues", "ProcessFailure", "initialize", "is_initialized", "shutdown"]
