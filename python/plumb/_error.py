"""The one exception that Plumb raises."""


class Error(Exception):
    """What Plumb refuses, or could not do, with a sentence that names the value met and what was expected.

    code: "invalid_argument", "unsupported", "device_unavailable", "out_of_memory" or "device_failure".
    reason: why a device cannot be had ("no_driver"), or "none"; docs/reasons.md lists them.
    """

    def __init__(self, message: str, code: str = "invalid_argument", reason: str = "none") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, str]]:
        return (Error, (str(self), self.code, self.reason))
