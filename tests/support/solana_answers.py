"""Answers of a node that are changed on their way."""

from __future__ import annotations


def changed(change):
    """A change of the true result."""

    def answer(_params, told):
        change(told["result"])
        return told

    return answer


def answer(error=None, **changes):
    def change(result):
        result["value"] |= {"err": error, **changes}

    return changed(change)
