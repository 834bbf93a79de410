"""Run `python -m tools.stopwatch`: time a stranger's ways to the first payment without a checkout.

`wheels` builds the release, installs it in an empty environment and runs `florin demo --up`. `npm`
packs the TypeScript client, installs it with viem in an empty folder, and pays with the Florin that
the shell's environment names (see `.florin/demo.env`). `make newcomer` times the way from a clone.
Packages come from PyPI and npm. Exits with 1 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release import read_version

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "client" / "typescript"
PAID: Final = "succeeded  transaction 0x"
_STEP_S: Final = 900
_PAY: Final = """\
import { Florin, FlorinGateway } from "florin-client";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const env = process.env;
const url = env.FLORIN_BASE_URL;
const merchant = { apiKey: env.FLORIN_PARTNER_KEY, merchantId: env.FLORIN_MERCHANT_ID };
const florin = new Florin({ url, ...merchant });
const wallet = { appId: env.FLORIN_APP_ID, clientId: env.FLORIN_CLIENT_ID };
const gateway = new FlorinGateway({ url, ...wallet });
const amount = { unit: "iso4217/USD", value: "1250" };
const { paymentId } = await florin.payments.create({ amount });
const account = privateKeyToAccount(generatePrivateKey());
const accounts = [`${env.FLORIN_EVM_CHAIN}:${account.address}`];
const { options } = await gateway.getOptions(paymentId, { accounts });
const signs = (action) => action.data.method === "eth_signTypedData_v4";
const option = options.find(({ actions }) => actions.every(signs));
const outputs = [];
for (const { params } of await gateway.getExecutableActions(paymentId, option)) {
  outputs.push(await account.signTypedData(JSON.parse(params[1])));
}
await gateway.confirm(paymentId, { optionId: option.id, outputs });
const { status, info } = await gateway.waitFinal(paymentId, { timeoutMs: 60_000 });
console.log(`${status}  transaction ${info.txId}`);
"""


@dataclass(frozen=True)
class TimedStep:
    """A command, the folder below the temporary one where it runs, and a text it must print.

    With `lasts`, the command is stopped once it has printed that text, and its status is ignored.
    """

    name: str
    command: tuple[str, ...]
    folder: str = "."
    output: str = ""
    lasts: bool = False


class StepError(Exception):
    """A step failed; the message has its output."""


def list_wheel_steps(folder: Path) -> list[TimedStep]:
    """Return the steps from the built distributions to a payment that succeeded."""
    python = "venv/bin/python"
    wheels = ("--find-links", str(folder / "dist"), f"florin-pay[sandbox]=={read_version()}")
    build = (sys.executable, "-m", "tools.release", "build", str(folder / "dist"))
    return [
        TimedStep("build the distributions", build, str(ROOT)),
        TimedStep("create an environment", (sys.executable, "-m", "venv", "venv")),
        TimedStep("install with pip", (python, "-m", "pip", "install", "--quiet", *wheels)),
        TimedStep("florin demo", ("venv/bin/florin", "demo", "--up"), output=PAID, lasts=True),
    ]


def list_npm_steps(folder: Path) -> list[TimedStep]:
    """Return the steps from the sources of the client to a payment that succeeded."""
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    package = str(folder / "client" / "typescript")
    archive = str(folder / "florin-client.tgz")
    copy = f"git archive HEAD client/typescript server/florin_server/web/openapi | tar -xC {folder}"
    return [
        TimedStep("copy the sources", ("sh", "-c", copy), str(ROOT)),
        TimedStep("install the tools with npm", ("npm", "ci", *quiet), package),
        TimedStep("npm pack", ("sh", "-c", f"npm pack && mv *.tgz {archive}"), package),
        TimedStep("install with npm", ("npm", "install", *quiet, archive, "viem"), "shop"),
        TimedStep("pay", ("node", "pay.mjs"), "shop", PAID),
    ]


def choose_variables(way: str) -> dict[str, str]:
    """Return the variables of the steps: only those of npm know the Florin of this shell."""
    ports = {"FLORIN_HTTP_PORT": "0", "FLORIN_GRPC_PORT": "0"}
    shell = os.environ.items()
    return {name: text for name, text in shell if way == "npm" or name[:7] != "FLORIN_"} | ports


def run_steps(
    folder: Path, steps: Iterable[TimedStep], variables: Mapping[str, str]
) -> list[tuple[str, float]]:
    """Run steps in sequence; return the seconds of each, or raise StepError."""
    durations = []
    for step in steps:
        started = time.monotonic()
        output, is_done = run_step(step, folder / step.folder, variables)
        if not is_done or step.output not in output:
            raise StepError(f"{step.name} failed:\n{output[-2000:]}")
        durations.append((step.name, time.monotonic() - started))
    return durations


def run_step(step: TimedStep, folder: Path, variables: Mapping[str, str]) -> tuple[str, bool]:
    """Run a step; return what it printed, and whether its status is good."""
    lines = []
    with subprocess.Popen(  # noqa: S603  (commands of this module)
        step.command,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        limit = threading.Timer(_STEP_S, process.kill)
        limit.start()
        for line in process.stdout or ():
            lines.append(line)
            if step.lasts and step.output in line:
                process.terminate()
        limit.cancel()
    return "".join(lines), step.lasts or process.returncode == 0


def format_table(durations: Sequence[tuple[str, float]]) -> str:
    """Return a line for each step, and for their sum."""
    rows = [*durations, ("total", sum(seconds for _, seconds in durations))]
    return "\n".join(f"{seconds:7.1f} s  {name}" for name, seconds in rows)


def main(arguments: Sequence[str] | None = None) -> int | str:
    """Time the chosen ways; return 0, or what failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.stopwatch", description=__doc__)
    parser.add_argument("ways", nargs="*", metavar="wheels|npm", help="both unless you name one")
    ways = parser.parse_args(arguments).ways or ["wheels", "npm"]
    listers = {"wheels": list_wheel_steps, "npm": list_npm_steps}
    if unknown := set(ways) - listers.keys():
        return f"unknown way {', '.join(sorted(unknown))}: choose wheels or npm"
    if "npm" in ways and "FLORIN_BASE_URL" not in os.environ:
        return "npm needs a running Florin: run `make up`, then `set -a; . .florin/demo.env`"
    for way in ways:
        with tempfile.TemporaryDirectory(prefix="stopwatch-") as name:
            folder = Path(name)
            (folder / "shop").mkdir()
            (folder / "shop" / "package.json").write_text('{"private": true, "type": "module"}\n')
            (folder / "shop" / "pay.mjs").write_text(_PAY)
            try:
                durations = run_steps(folder, listers[way](folder), choose_variables(way))
            except StepError as error:
                return f"{way}: {error}"
        sys.stdout.write(f"{way}\n{format_table(durations)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
