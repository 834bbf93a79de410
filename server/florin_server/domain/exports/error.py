"""The error of an export that is not possible."""


class ExportError(Exception):
    """Nothing, or nothing more, was exported; the text says what to do."""
