"""What an operator is told when nothing was done."""


class OperatorError(Exception):
    """The service refused; the text says why.

    `code` is that of the reference of errors, empty where none of the service's own was told, and
    `status` the name of the gRPC status, empty where none says it.
    """

    def __init__(self, why: str, code: str = "", status: str = "") -> None:
        super().__init__(f"{why} ({code})" if code else why)
        self.code = code
        self.status = status
