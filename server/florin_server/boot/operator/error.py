"""What an operator is told when nothing was done."""


class OperatorError(Exception):
    """The service refused; the text says why.

    `code` is that of the reference of errors, empty where none of the service's own was told.
    """

    def __init__(self, why: str, code: str = "") -> None:
        super().__init__(f"{why} ({code})" if code else why)
        self.code = code
