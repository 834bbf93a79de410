"""`florin chain add`: walks an operator through a chain, and writes it down once it was checked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.boot.chains import connected, finality_rules, prices
from florin_server.boot.chains.setup import (
    Reached,
    known_factories,
    opener_contract,
    own_secrets,
    reach,
    settlement_contract,
    slug,
)
from florin_server.boot.chains.tokens import Chosen, Wish, choose
from florin_server.boot.home import Home, Refused, Secrets, private
from florin_server.boot.servers import public_address
from florin_server.boot.servers.addresses import spelled
from florin_server.cli.chains import deploy
from florin_server.cli.chains.keystores import Key, KeyRing
from florin_server.cli.console import console, fail, note, told_line
from florin_server.cli.prompt import Prompt
from florin_server.cli.settings import settings_of
from florin_server.config import Settings
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.domain.caip import checksum_address, parse_account
from florin_server.flows.operator.health import faults
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import name_of
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import GWEI, EvmChain
from florin_server.rails.evm.setup.deployment import NotDeployed
from florin_server.rails.networks import chain_files, chain_writer
from florin_server.rails.networks.chain_files import Chain
from florin_server.rails.networks.registry import unsupported
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaCoin
from florin_server.rails.types import RailUnavailable

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
    treasury_key_file: Path | None
    new_treasury: bool
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
    opener: bool
    factories: tuple[str, ...]
    deploy: bool | None


def run(given: dict[str, Any], wishes: Wishes, *, yes: bool) -> None:
    """Prints the file that holds the chain; ends the program if it cannot be added."""
    settings = settings_of(given)
    try:
        asyncio.run(_Walk(settings, wishes, Prompt(quiet=yes)).go())
    except (Refused, ValueError, RailUnavailable, RpcError, OSError) as error:
        fail("Not added", error)
    except NotDeployed as error:
        fail("Added, but not deployed", error)


class _Walk:
    def __init__(self, settings: Settings, wishes: Wishes, prompt: Prompt) -> None:
        self._settings = settings
        self._home = Home(settings.home)
        self._wishes = wishes
        self._prompt = prompt

    async def go(self) -> None:
        first, *others = self._wishes.rpc_urls or (None,)
        url = self._prompt.text("JSON-RPC address of a node", "--rpc-url", first)
        kept = await own_secrets(self._settings, self._home)
        async with reach(url) as reached:
            for number, other in enumerate(others, 2):
                await _serves_the_same(other, number, reached)
            name, path = self._place(reached)
            ring = KeyRing(self._settings, is_solana=reached.is_solana)
            relayers = self._relayers(reached, ring, kept, path.stem)
            treasury, key = self._treasury(reached, ring, path.stem)
            tokens = await self._tokens(reached)
            said = self._said(reached, name, tokens)
            said |= await self._opening(reached)
            said["rpc_url"] = [url, *others] if others else url
            said["treasury"], said["treasury_keystore"] = treasury, self._named(key)
            said["relayer_keystores"] = [one for one in map(self._named, relayers) if one]
        kind = "solana" if reached.is_solana else "evm"
        text = chain_writer.text(kind, {one: value for one, value in said.items() if value != []})
        chain = chain_files.parse(text.encode(), path, self._home.path)
        await self._check(chain, relayers)
        for asset, symbol in chain.asset_ids.items():
            note(f"{symbol} is {asset}")
        unpriced = prices.unpriced(self._settings, chain)
        for told in (*unpriced, *finality_rules.list_missing([chain])):
            note(f"{told}.")
        if not self._prompt.sure(f"Write it to {path}?", usual=True):
            raise Refused("you said no")
        for one in relayers:
            ring.write(one, "The relayer's")
        if key is not None:
            ring.write(key, "The treasury's")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        private(path, text).close()
        document = {"file": str(path), "chain": chain.caip2, "assets": dict(chain.asset_ids)}
        if not told_line(document):
            console.print(str(path))
        if isinstance(chain, EvmChain):
            await self._deploy(chain, [Signer(one.secret) for one in (*relayers, key) if one])
        if chain.live and (told := public_address.problem(self._links)):
            note(f"{told}: set FLORIN_PAY_URL to the https address that buyers will see.")
        if chain.live and self._settings.demo is None and self._settings.has_demo:
            note(
                "Its money is real: embedded chains and test accounts are off from the next start "
                "on. FLORIN_DEMO=true keeps them; another home (--home) has its own."
            )
        if self._home.addresses() is not None:
            note("Florin runs: start it again to take payments there.")

    @property
    def _links(self) -> str:
        """What payment links begin with, as far as it is known before a start."""
        settings = self._settings
        return (
            settings.pay_url.rstrip("/") or f"http://{spelled(settings.host, settings.http_port)}"
        )

    def _place(self, reached: Reached) -> tuple[str, Path]:
        """What the chain is called, and where it is written down."""
        wanted = self._wishes.chain_id
        if wanted is not None and wanted != reached.chain_id:
            raise Refused(f"the node serves {reached.title}, not {wanted}")
        if (known := unsupported(reached.chain_id)) is not None:
            raise Refused(f"{known.name} ({known.id}) is not supported: it {known.reason}")
        if reached.network is None and wanted is None:
            told = f"the node serves {reached.title}, which is no registered network"
            if not self._prompt.sure(f"{told}. Add it all the same?", usual=False):
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
        name = self._wishes.name or usual or self._prompt.text("Its name", "--name", None)
        path = chain_files.folder(self._home.path) / f"{slug(name)}.toml"
        if path.stem == "" or path.exists():
            raise Refused(f"no chain can be written to {path}: choose another --name")
        note(f"The node serves {reached.title}.")
        return name, path

    def _named(self, key: Key | None) -> str | None:
        """A keystore as the chain's file names it: ours by its place in the state folder."""
        if key is None or key.keystore is None:
            return None
        return str(key.keystore.relative_to(self._home.path) if key.is_new else key.keystore)

    def _relayers(
        self, reached: Reached, ring: KeyRing, kept: Secrets, stem: str
    ) -> tuple[Key, ...]:
        """Who will submit, and pay for gas."""
        wishes = self._wishes
        if wishes.relayer_keystores:
            return tuple(map(ring.opened, wishes.relayer_keystores))
        keystore = self._keystore(stem, "relayer")
        if wishes.new_relayer or wishes.relayer_key_file is not None:
            return (ring.made(keystore, wishes.relayer_key_file),)
        asked = f"Relayer's key: {_OWN} (this installation's), {_NEW}, or a keystore's path"
        choice = self._prompt.text(asked, "--new-relayer", None, _OWN)
        if choice == _OWN:
            return (Key(kept.solana_relayer_seed if reached.is_solana else kept.relayer_key),)
        return (ring.made(keystore) if choice == _NEW else ring.opened(Path(choice)),)

    def _treasury(self, reached: Reached, ring: KeyRing, stem: str) -> tuple[str, Key | None]:
        """The account that receives, and its key if Florin is to pay out of it."""
        wishes, keystore = self._wishes, self._keystore(stem, "treasury")
        key = None
        if wishes.treasury_keystore is not None:
            key = ring.opened(wishes.treasury_keystore)
        elif wishes.new_treasury or wishes.treasury_key_file is not None:
            key = ring.made(keystore, wishes.treasury_key_file)
        asked = f"Treasury, the account that receives fees, or {_NEW}"
        usual = None if key is None else ring.address(key)
        given = self._prompt.text(asked, "--treasury", wishes.treasury, usual)
        if given == _NEW and key is None:
            key = ring.made(keystore)
            given = ring.address(key)
        if ":" in given and str(parse_account(given).chain) != reached.chain_id:
            raise Refused(f"the treasury {given} is on another chain")
        given = given.rpartition(":")[2]
        if key is not None:
            own = ring.address(key)
            # base58 means another account in other capitals
            same = own == given if reached.is_solana else own.lower() == given.lower()
            if not same:
                raise Refused(f"the treasury is {given}, but its key is of {own}")
            note(f"Treasury: {given}")
        return given, key

    def _keystore(self, stem: str, whose: str) -> Path:
        return self._home.path / "keys" / f"{stem}-{whose}.json"

    async def _opening(self, reached: Reached) -> dict[str, Any]:
        """The contract that creates accounts on first use, and the factories that it may call."""
        wishes = self._wishes
        if not wishes.opener and not wishes.factories:
            return {}
        if reached.is_solana:
            raise Refused("accounts on Solana need no opener and no factories")
        factories = await known_factories(reached.rpc, reached.title, wishes.factories)
        return {"opener": checksum_address(opener_contract().address), "factories": factories}

    async def _tokens(self, reached: Reached) -> list[Chosen]:
        """The tokens to take; without any wish all that are registered and as they should be."""
        known = () if reached.network is None else reached.network.tokens
        usual = " ".join(token.symbol for token in known)
        wished = self._wishes.tokens
        if wished is None and not self._prompt.quiet:
            asked = "Tokens, by symbol or ADDRESS:PEG:SYMBOL"
            answer = self._prompt.text(asked, "--token", None, usual)
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
            live = self._prompt.sure("Is its money real?", usual=False)
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
        confirmations = self._prompt.text(
            "Blocks that make a payment final",
            "--confirmations",
            None if wishes.confirmations is None else str(wishes.confirmations),
            str(usual),
        )
        if wishes.coin and reached.network is not None and reached.network.coin is None:
            raise Refused(f"{reached.title} has no coin: fees are paid in a token")
        if wishes.coin:
            coin = reached.network.coin if reached.network else None
            said["coin"] = {
                "name": coin.name if coin else "Ether",
                "symbol": coin.symbol if coin else "ETH",
            }
        fee_max = self._prompt.text(
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

    async def _check(self, chain: Chain, relayers: tuple[Key, ...]) -> None:
        """What the doctor would say; a relayer that is the treasury is refused."""
        rail = _rail(chain, [one.secret for one in relayers])
        connected.check_apart(chain, rail.senders)
        try:
            problems = await faults(rail)
        finally:
            await rail.close()
        for sender in rail.senders:
            note(f"Relayer: {sender}")
        for problem in problems:
            note(problem)

    async def _deploy(self, chain: EvmChain, signers: list[Signer]) -> None:
        """Put Florin's contracts there if they are wanted now; the first key pays for them."""
        signer = signers[0]
        if chain.settler != settlement_contract().address:
            return
        absent = [one for one in deploy.wanted(chain) if not await one.is_there(chain, signer)]
        if not absent:
            return
        names = " and ".join(one.title for one in absent)
        if self._prompt.sure(
            f"Not there yet: {names}. Deploy now?", self._wishes.deploy, usual=False
        ):
            for one in deploy.wanted(chain):
                await one.ensure(chain, signer, self._prompt)
            for key in signers:
                await deploy.choose_fee_token(chain, key, self._prompt)
        else:
            note(
                f"Next: give {checksum_address(signer.address)} some of {name_of(chain)} for gas, "
                f"then `florin chain deploy {chain.caip2}`, which puts there: {names}."
            )


async def _serves_the_same(url: str | None, number: int, first: Reached) -> None:
    """Refused if another node cannot be used, or serves another chain."""
    async with reach(url or "") as reached:
        if reached.chain_id != first.chain_id:
            told = f"node {number} serves {reached.title}, the first one {first.title}"
            raise Refused(told)


def _rail(chain: Chain, secrets: list[bytes]) -> EvmRail | SolanaRail:
    first, *others = secrets
    if isinstance(chain, EvmChain):
        return EvmRail(chain, Signer(first), more=[Signer(one) for one in others])
    if others:
        raise Refused("one relayer key co-signs on Solana, not several")
    return SolanaRail(chain, SolanaSigner(first))
