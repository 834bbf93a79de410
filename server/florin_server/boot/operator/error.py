"""What an operator is told when nothing was done."""


class OperatorError(Exception):
    """The service refused; the text says why."""
