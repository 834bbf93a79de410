"""Answers of a node that are changed on their way."""

from __future__ import annotations


def make_result_change(change):
    """Return a change of the true result."""

    def answer(_params, result):
        change(result["result"])
        return result

    return answer


def make_error_change(error=None, **changes):
    def change(result):
        result["value"] |= {"err": error, **changes}

    return make_result_change(change)
