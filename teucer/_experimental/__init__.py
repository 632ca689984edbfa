"""The private parts of public modules of `experimental`, for modules that need no package of their
own."""
