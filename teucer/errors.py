"""The exceptions that Teucer raises of its own; everything else is a plain ValueError, TypeError or
IndexError."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._base.errors": (
            "ConcretizationTypeError InconclusiveDimensionOperation JAXIndexError JaxprTypeError "
            "JaxRuntimeError JAXTypeError KeyReuseError NonConcreteBooleanIndexError "
            "TracerArrayConversionError TracerBoolConversionError TracerIntegerConversionError "
            # Those that JAX raises, but does not hand on.
            "DeviceCountError ForbiddenCollectiveError NonlinearOnPartsError ShardingTypeError "
            "TypePromotionError UnexpectedTracerError UnsupportedDtypeError"
        ),
        "teucer._base.tracebacks": "UnfilteredStackTrace",
        "teucer._core.missing": "MissingRule",
        "teucer._derived.custom_calls": "CustomVJPException",
        "teucer._derived.budget.plan": "MemoryBudgetError",
        "teucer._devices.links": "Unreachable",
        "teucer._devices.placement": "IncompatibleDevices",
        "teucer._devices.shardings": "IndivisibleError",
        "teucer._devices.specs": "DuplicateSpecError",
        "teucer._pallas.checked": "KernelError",
    },
)
