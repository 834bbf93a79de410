"""`florin chain add`: walks an operator through a chain, and writes it down once it was checked."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.boot import chains
from florin_server.boot.chain_setup import Reached, own_secrets, reach, settlement_contract, slug
from florin_server.boot.chain_tokens import Chosen, Wish, choose
from florin_server.boot.home import Home, Refused, Secrets, private
from florin_server.boot.keys import (
    open_keystore,
    password_of,
    write_evm_keystore,
    write_solana_keystore,
)
from florin_server.cli import chain_deploy
from florin_server.cli.console import console, fail, note, settings_of
from florin_server.cli.talk import Talk
from florin_server.config import Settings
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.domain.caip import checksum_address, parse_account
from florin_server.rails import chain_files
from florin_server.rails.base import RailUnavailable
from florin_server.rails.chain_files import Chain
from florin_server.rails.evm.deployment import NotDeployed
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.settings import GWEI, EvmChain
from florin_server.rails.evm.transactions import Signer
from florin_server.rails.jsonrpc import RpcError
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.settings import SolanaCoin
from florin_server.rails.solana.signer import SolanaSigner

# of a chain that nobody told us about: rather too late than too early
_CONFIRMATIONS = 12
_OWN, _NEW = "own", "new"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was given on the command line; the rest is asked for, or what is usual."""

    name: str | None
    rpc_urls: tuple[str, ...]
    chain_id: str | None
    treasury: str | None
    treasury_keystore: Path | None
    relayer_keystores: tuple[Path, ...]
    relayer_key_file: Path | None
    new_relayer: bool
    tokens: tuple[str, ...] | None
    coin: bool
    live: bool | None
    confirmations: int | None
    poll_ms: int | None
    fee_max_gwei: int | None
    tip_max_gwei: int | None
    settler: str | None
    deploy: bool | None


@dataclass(frozen=True, slots=True)
class Relayer:
    """Who will submit; a key that has no keystore yet gets one when all else is settled."""

    secrets: tuple[bytes, ...]
    keystores: tuple[str, ...] = ()
    unwritten: Path | None = None


def run(given: dict[str, Any], wishes: Wishes, *, yes: bool) -> None:
    """Prints the file that holds the chain; ends the program if it cannot be added."""
    settings = settings_of(given)
    try:
        asyncio.run(_Walk(settings, wishes, Talk(quiet=yes)).go())
    except (Refused, ValueError, RailUnavailable, RpcError, OSError) as error:
        fail("Not added", error)
    except NotDeployed as error:
        fail("Added, but the settlement contract is not deployed", error)


class _Walk:
    def __init__(self, settings: Settings, wishes: Wishes, talk: Talk) -> None:
        self._settings = settings
        self._home = Home(settings.home)
        self._wishes = wishes
        self._talk = talk

    async def go(self) -> None:
        first, *others = self._wishes.rpc_urls or (None,)
        url = self._talk.text("JSON-RPC address of a node", "--rpc-url", first)
        kept = await own_secrets(self._home)
        async with reach(url) as reached:
            for number, other in enumerate(others, 2):
                await _serves_the_same(other, number, reached)
            name, path = self._place(reached)
            relayer = self._relayer(reached, kept, path.stem)
            treasury = self._treasury(reached)
            tokens = await self._tokens(reached)
            said = self._said(reached, name, tokens) | treasury
            said["rpc_url"] = [url, *others] if others else url
            said["relayer_keystores"] = list(relayer.keystores)
        kind = "solana" if reached.is_solana else "evm"
        text = chain_files.text(kind, {one: value for one, value in said.items() if value != []})
        chain = chain_files.parse(text, path, self._home.path)
        await self._check(chain, relayer)
        _tell_rates(chain, tokens)
        if not self._talk.sure(f"Write it to {path}?", usual=True):
            raise Refused("you said no")
        self._write(path, text, relayer, is_solana=reached.is_solana)
        if isinstance(chain, EvmChain):
            await self._deploy(chain, Signer(relayer.secrets[0]))
        if chain.live and self._settings.demo is None and self._settings.has_demo:
            note(
                "Its money is real: embedded chains and test accounts are off from the next start "
                "on. FLORIN_DEMO=true keeps them; another home (--home) has its own."
            )
        if self._home.addresses() is not None:
            note("Florin runs: start it again to take payments there.")

    def _place(self, reached: Reached) -> tuple[str, Path]:
        """What the chain is called, and where it is written down."""
        wanted = self._wishes.chain_id
        if wanted is not None and wanted != reached.chain_id:
            raise Refused(f"the node serves {reached.title}, not {wanted}")
        if reached.network is None and wanted is None:
            told = f"the node serves {reached.title}, which is no registered network"
            if not self._talk.sure(f"{told}. Add it all the same?", usual=False):
                raise Refused(f"{told}: say --chain {reached.chain_id} if you mean it")
        configured: tuple[Chain, ...] = (*self._settings.chains, *self._settings.solana_chains)
        ids = {chain.caip2 for chain in configured}
        if self._settings.has_embedded:
            ids.add(f"eip155:{DEVNET.chain_id}")
        if self._settings.has_embedded_solana:
            ids.add(SOLNET.chain_id)
        if reached.chain_id in ids:
            raise Refused(f"{reached.title} is there already")
        usual = None if reached.network is None else reached.network.name
        name = self._wishes.name or usual or self._talk.text("Its name", "--name", None)
        path = chain_files.folder(self._home.path) / f"{slug(name)}.toml"
        if path.stem == "" or path.exists():
            raise Refused(f"no chain can be written to {path}: choose another --name")
        note(f"The node serves {reached.title}.")
        return name, path

    def _relayer(self, reached: Reached, kept: Secrets, stem: str) -> Relayer:
        own = kept.solana_relayer_seed if reached.is_solana else kept.relayer_key
        wishes, password = self._wishes, self._settings
        if wishes.relayer_keystores:
            paths = [path.resolve() for path in wishes.relayer_keystores]
            found = [open_keystore(path, password_of(password)) for path in paths]
            return Relayer(tuple(found), tuple(map(str, paths)))
        choice = _NEW if wishes.new_relayer else wishes.relayer_key_file
        if choice is None:
            asked = f"Relayer's key: {_OWN} (this installation's), {_NEW}, or a keystore's path"
            choice = self._talk.text(asked, "--new-relayer", None, _OWN)
        if choice == _OWN:
            return Relayer((own,))
        if isinstance(choice, str) and choice != _NEW:
            path = Path(choice).resolve()
            return Relayer((open_keystore(path, password_of(password)),), (str(path),))
        password_of(password)  # without one there would be a key that nobody can open
        secret = os.urandom(32) if choice == _NEW else _key_in(Path(choice))
        kept_at = Path("keys") / f"{stem}-relayer.json"
        return Relayer((secret,), (str(kept_at),), self._home.path / kept_at)

    def _treasury(self, reached: Reached) -> dict[str, Any]:
        path, address = self._wishes.treasury_keystore, None
        if path is not None:
            path = path.resolve()
            secret = open_keystore(path, password_of(self._settings))
            address = _address(reached, secret)
        asked = "Treasury, the account that receives fees"
        given = self._talk.text(asked, "--treasury", self._wishes.treasury, address)
        if ":" in given and str(parse_account(given).chain) != reached.chain_id:
            raise Refused(f"the treasury {given} is on another chain")
        given = given.rpartition(":")[2]
        if address is not None and address.lower() != given.lower():
            raise Refused(f"the treasury is {given}, but the keystore {path} is of {address}")
        return {"treasury": given, "treasury_keystore": None if path is None else str(path)}

    async def _tokens(self, reached: Reached) -> list[Chosen]:
        """The tokens to take; without any wish all that are registered and as they should be."""
        known = () if reached.network is None else reached.network.tokens
        usual = " ".join(token.symbol for token in known)
        wished = self._wishes.tokens
        if wished is None and not self._talk.quiet:
            asked = "Tokens, by symbol or ADDRESS:PEG:SYMBOL"
            answer = self._talk.text(asked, "--token", None, usual)
            wished = None if answer == usual else tuple(answer.replace(",", " ").split())
        chosen = []
        for text in wished if wished is not None else [token.symbol for token in known]:
            try:
                one = await choose(reached, Wish.of(text))
            except Refused as refusal:
                if wished is not None:
                    raise
                note(f"Left out: {refusal}.")
                continue
            note(one.told)
            chosen.append(one)
        return chosen

    def _said(self, reached: Reached, name: str, tokens: list[Chosen]) -> dict[str, Any]:
        """The chain's settings, as far as they are not the registry's."""
        wishes, is_registered = self._wishes, reached.network is not None
        live = wishes.live
        if live is None and not is_registered:
            live = self._talk.sure("Is its money real?", usual=False)
        said: dict[str, Any] = {
            "name": None if is_registered and wishes.name is None else name,
            "live": live,
            "poll_ms": wishes.poll_ms,
            "tokens": [one.symbol for one in tokens if one.said is None],
            "assets": [one.said for one in tokens if one.said is not None],
        }
        if reached.is_solana:
            said["coin"] = SolanaCoin().model_dump(exclude_none=True) if wishes.coin else None
            return {"reference": reached.chain_id.partition(":")[2], **said}
        usual = reached.network.pace.confirmations if reached.network else _CONFIRMATIONS
        confirmations = self._talk.text(
            "Blocks that make a payment final",
            "--confirmations",
            None if wishes.confirmations is None else str(wishes.confirmations),
            str(usual),
        )
        if wishes.coin:
            coin = reached.network.coin if reached.network else None
            said["coin"] = {
                "name": coin.name if coin else "Ether",
                "symbol": coin.symbol if coin else "ETH",
            }
        fee_max = self._talk.text(
            "The most for a unit of gas, in gwei",
            "--fee-max-gwei",
            None if wishes.fee_max_gwei is None else str(wishes.fee_max_gwei),
            str(EvmChain.model_fields["fee_max"].default // GWEI),
        )
        said["fee_max"] = int(fee_max) * GWEI
        said["tip_max"] = None if wishes.tip_max_gwei is None else wishes.tip_max_gwei * GWEI
        settler = wishes.settler or checksum_address(settlement_contract().address)
        return {
            "chain_id": reached.number,
            **said,
            "confirmations": int(confirmations),
            "settler": settler,
        }

    async def _check(self, chain: Chain, relayer: Relayer) -> None:
        """What the doctor would say; a relayer that is the treasury is refused."""
        rail = _rail(chain, relayer.secrets)
        chains.check_apart(chain, rail.senders)
        try:
            problems = await rail.problems()
        finally:
            await rail.close()
        for sender in rail.senders:
            note(f"Relayer: {sender}")
        for problem in problems:
            note(problem)

    def _write(self, path: Path, text: str, relayer: Relayer, *, is_solana: bool) -> None:
        if relayer.unwritten is not None:
            write = write_solana_keystore if is_solana else write_evm_keystore
            write(relayer.unwritten, relayer.secrets[0], password_of(self._settings))
            note(f"The relayer's key is in {relayer.unwritten}; keep a copy of it.")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        private(path, text).close()
        console.print(str(path), markup=False)

    async def _deploy(self, chain: EvmChain, signer: Signer) -> None:
        if chain.settler != settlement_contract().address:
            return
        if await chain_deploy.is_there(chain, signer):
            return
        wanted = self._talk.sure(
            "Its settlement contract is not there. Deploy it now?", self._wishes.deploy, usual=False
        )
        if wanted:
            await chain_deploy.deploy(chain, signer, self._talk)
        else:
            note(f"Next: give {signer.address} coin for gas, then `florin chain deploy`.")


async def _serves_the_same(url: str | None, number: int, first: Reached) -> None:
    """Refused if another node cannot be used, or serves another chain."""
    async with reach(url or "") as reached:
        if reached.chain_id != first.chain_id:
            told = f"node {number} serves {reached.title}, the first one {first.title}"
            raise Refused(told)


def _rail(chain: Chain, secrets: tuple[bytes, ...]) -> EvmRail | SolanaRail:
    first, *others = secrets
    if isinstance(chain, EvmChain):
        return EvmRail(chain, Signer(first), more=[Signer(one) for one in others])
    if others:
        raise Refused("one relayer key co-signs on Solana, not several")
    return SolanaRail(chain, SolanaSigner(first))


def _address(reached: Reached, secret: bytes) -> str:
    return SolanaSigner(secret).address if reached.is_solana else Signer(secret).address


def _key_in(path: Path) -> bytes:
    try:
        secret = bytes.fromhex(path.read_text().strip().removeprefix("0x"))
    except (OSError, ValueError):
        raise Refused(f"{path} holds no key in hex") from None
    if len(secret) != 32:
        raise Refused(f"{path} holds no key of 32 bytes")
    return secret


def _tell_rates(chain: Chain, tokens: list[Chosen]) -> None:
    wanted = [one.symbol for one in tokens if one.has_rate]
    if chain.coin is not None:
        wanted.append(chain.coin.symbol)
    if wanted:
        note(f"Offered once the settings have a rate for it: {', '.join(wanted)}.")
