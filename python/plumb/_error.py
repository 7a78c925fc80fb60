"""The one exception that Plumb raises."""


class Error(Exception):
    """What Plumb refuses, or could not do, with a sentence that names the value met and what was expected.

    code: "invalid_argument", "unsupported", "device_unavailable", "out_of_memory" or "device_failure".
    reason: why a device cannot be had ("no_driver"), or "none"; docs/reasons.md lists them.
    """

    def __init__(self, message, code="invalid_argument", reason="none"):
        super().__init__(message)
        self.code = code
        self.reason = reason

    def __reduce__(self):
        return (Error, (str(self), self.code, self.reason))
