"""The error of an operator's call that did nothing."""


class OperatorError(Exception):
    """The service refused; the text says why.

    `code` is that of the reference of errors, empty if the service returned none, and `status` the
    name of the gRPC status, or empty.
    """

    def __init__(self, message: str, code: str = "", status: str = "") -> None:
        super().__init__(f"{message} ({code})" if code else message)
        self.code = code
        self.status = status
