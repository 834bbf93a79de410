"""Which Florin the environment names, and what is wrong of that, in one sentence."""

from __future__ import annotations

import os
import re

import grpc
from florin_client import VERSION, FlorinError

_LIVE = "fl_live_"
_HERE = ("127.0.0.1", "localhost", "[::1]")
_ADDRESS = re.compile(r"[^/\s]+:\d+")


class LabError(Exception):
    """Why a notebook cannot go on, and what to do about it, in one sentence."""


class Env(dict[str, str]):
    """What is known of a Florin; LabError for a name that nobody told."""

    def __missing__(self, name: str) -> str:
        raise LabError(
            f"set {name} too, which this notebook needs of the Florin at "
            f"{self['FLORIN_GRPC_TARGET']}: a sandbox tells it in demo.env"
        )


def missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same with what to do about it."""
    library = str(error.name).partition(".")[0]
    return ModuleNotFoundError(f"{library} is missing: pip install 'florin-pay[notebooks]'")


def named() -> Env | None:
    """What the environment tells of a Florin elsewhere, whose gRPC is its FLORIN_GRPC_TARGET.

    None if it names none. LabError if what it names is no place for calls.
    """
    told = os.environ.get("FLORIN_TARGET") or os.environ.get("FLORIN_GRPC_TARGET")
    return Env({**os.environ, "FLORIN_GRPC_TARGET": address(told)}) if told else None


def address(told: str) -> str:
    """A host:port; LabError for anything else."""
    if _ADDRESS.fullmatch(told):
        return told
    what = "a folder, which analyses read" if os.path.isdir(told) else "no host:port"  # noqa: PTH112
    raise LabError(
        f"FLORIN_TARGET is {told}, {what}: name the gRPC of a Florin, as demo.env does in "
        "FLORIN_GRPC_TARGET"
    )


def is_here(target: str) -> bool:
    """Whether it is on this machine, where nothing is encrypted."""
    return target.startswith(_HERE)


def refuse() -> None:
    """LabError if FLORIN_TARGET is set, for notebooks that start a Florin of their own."""
    if told := os.environ.get("FLORIN_TARGET"):
        raise LabError(
            f"this notebook starts a Florin with settings of its own, and cannot use {told}: "
            "unset FLORIN_TARGET for it"
        )


def check_merchant(env: Env, *, writes: bool) -> None:
    """LabError if there are no credentials of a merchant, or of a live one for what `writes`."""
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
    """What a Florin's answer to the first call means to whoever named it."""
    if error.status is grpc.StatusCode.UNIMPLEMENTED:
        return LabError(
            f"{target} is no Florin, or one that is older than this notebook: bring it up to "
            f"date with florin-client {VERSION}"
        )
    if error.status in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
        return LabError(
            f"{target} does not answer by gRPC: see that Florin runs, and that FLORIN_TARGET is "
            f"the address of its gRPC and not of REST ({error.message})"
        )
    if error.code in {"merchant_not_found", "not_found"}:
        return LabError(
            f"{target} has no such merchant: FLORIN_MERCHANT_ID must be one of the partner whose "
            "key FLORIN_PARTNER_KEY is"
        )
    return LabError(
        f"{target} does not let this notebook in: FLORIN_PARTNER_KEY must be a partner's key "
        f"there, and FLORIN_MERCHANT_ID a merchant of that partner ({error})"
    )
