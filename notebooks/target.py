"""Find the Florin in the environment, and check it, with errors in one sentence."""

from __future__ import annotations

import os
import re

import grpc
from florin_client import VERSION, FlorinError

_LIVE = "fl_live_"
_HERE = ("127.0.0.1", "localhost", "[::1]")
_ADDRESS = re.compile(r"[^/\s]+:\d+")


class LabError(Exception):
    """The reason that a notebook cannot continue, and the remedy, in one sentence."""


class Env(dict[str, str]):
    """Variables of a Florin; raise LabError for a missing name."""

    def __missing__(self, name: str) -> str:
        raise LabError(
            f"set {name} too: this notebook needs it for the Florin at "
            f"{self['FLORIN_GRPC_TARGET']}: a sandbox writes it to demo.env"
        )


def missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error with its remedy."""
    library = str(error.name).partition(".")[0]
    return ModuleNotFoundError(f"{library} is missing: pip install 'florin-pay[notebooks]'")


def named() -> Env | None:
    """Return the variables of a remote Florin; its gRPC address is FLORIN_GRPC_TARGET.

    Return None if FLORIN_TARGET is unset. Raise LabError if it is not a gRPC address.
    """
    target = os.environ.get("FLORIN_TARGET") or os.environ.get("FLORIN_GRPC_TARGET")
    return Env({**os.environ, "FLORIN_GRPC_TARGET": address(target)}) if target else None


def address(target: str) -> str:
    """Return a host:port; raise LabError for anything else."""
    if _ADDRESS.fullmatch(target):
        return target
    what = "a folder, which analyses read" if os.path.isdir(target) else "not a host:port"  # noqa: PTH112
    raise LabError(
        f"FLORIN_TARGET is {target}, {what}: set it to the gRPC address of a Florin, as in "
        "FLORIN_GRPC_TARGET of demo.env"
    )


def is_here(target: str) -> bool:
    """Return True if it is on this machine, where connections are not encrypted."""
    return target.startswith(_HERE)


def refuse() -> None:
    """Raise LabError if FLORIN_TARGET is set, for notebooks that start their own Florin."""
    if target := os.environ.get("FLORIN_TARGET"):
        raise LabError(
            f"this notebook starts a Florin with its own settings, and cannot use {target}: "
            "unset FLORIN_TARGET"
        )


def check_merchant(env: Env, *, writes: bool) -> None:
    """Raise LabError without a merchant's credentials, or with a live key if it `writes`."""
    names = ("FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID")
    if missing := [name for name in names if not env.get(name)]:
        raise LabError(
            f"set {' and '.join(missing)}, the credentials of a merchant at "
            f"{env['FLORIN_GRPC_TARGET']}"
        )
    if writes and env["FLORIN_PARTNER_KEY"].startswith(_LIVE):
        raise LabError(
            "this notebook creates payments, and FLORIN_PARTNER_KEY is a live key: set a test key"
        )


def refusal(target: str, error: FlorinError) -> LabError:
    """Return the error for a Florin's response to the first call."""
    if error.status is grpc.StatusCode.UNIMPLEMENTED:
        return LabError(
            f"{target} is not a Florin, or is older than this notebook: update it to "
            f"the version of florin-client {VERSION}"
        )
    if error.status in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
        return LabError(
            f"{target} does not respond over gRPC: check that Florin runs, and that FLORIN_TARGET "
            f"is its gRPC address, not its REST address ({error.message})"
        )
    if error.code in {"merchant_not_found", "not_found"}:
        return LabError(
            f"{target} has no such merchant: FLORIN_MERCHANT_ID must belong to the partner of "
            "FLORIN_PARTNER_KEY"
        )
    return LabError(
        f"{target} refuses the credentials: FLORIN_PARTNER_KEY must be a partner's key "
        f"there, and FLORIN_MERCHANT_ID a merchant of that partner ({error})"
    )
