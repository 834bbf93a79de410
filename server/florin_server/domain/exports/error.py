"""What somebody is told who cannot have an export."""


class NotExported(Exception):  # noqa: N818  (a decision, told as it is)
    """Nothing, or nothing more, was exported; the text says what to do."""
