"""`florin chain add`: ask an operator for a chain's settings, check them and write them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.app.chains import connected, finality_rules, prices
from florin_server.app.chains.setup import (
    ProbedNode,
    check_factories,
    load_opener_contract,
    load_settlement_contract,
    probe_node,
    read_secrets,
    to_file_name,
)
from florin_server.app.chains.tokens import TokenChoice, TokenRequest, check_token
from florin_server.app.home import (
    InstallationSecrets,
    SetupError,
    StateFolder,
    replace_private_file,
)
from florin_server.app.servers import public_address
from florin_server.app.servers.addresses import format_address
from florin_server.cli.chains import deploy
from florin_server.cli.chains.keystores import ChainKey, KeySource
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json_line,
)
from florin_server.cli.prompt import OperatorPrompt
from florin_server.cli.settings import get_settings
from florin_server.domain.caip import format_checksum_address, parse_account
from florin_server.features.monitoring.service.health import list_node_faults
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import get_gas_money_name
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import GWEI, EvmChainSettings
from florin_server.rails.evm.setup.deployment import DeploymentFailed
from florin_server.rails.networks import chain_files, chain_writer
from florin_server.rails.networks.chain_files import AnyChainSettings
from florin_server.rails.networks.embedded import EMBEDDED_EVM, EMBEDDED_SOLANA
from florin_server.rails.networks.registry import find_unsupported
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaCoinSettings
from florin_server.rails.types import RailUnavailable
from florin_server.settings import Settings

# of chains outside the registry: rather too late than too early
_CONFIRMATIONS = 12
_OWN_KEY, _NEW_KEY = "own", "new"


@dataclass(frozen=True, slots=True)
class AddChainOptions:
    """The options of the command; the wizard asks for the others, or uses defaults."""

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
    takes_coin: bool
    is_live: bool | None
    confirmations: int | None
    poll_ms: int | None
    fee_max_gwei: int | None
    tip_max_gwei: int | None
    settler: str | None
    takes_opener: bool
    factories: tuple[str, ...]
    deploys: bool | None


def add_chain(overrides: dict[str, Any], options: AddChainOptions, *, yes: bool) -> None:
    """Add a chain, and print its file; end the program if the chain cannot be added."""
    settings = get_settings(overrides)
    try:
        asyncio.run(AddChainWizard(settings, options, OperatorPrompt(is_quiet=yes)).run())
    except (SetupError, ValueError, RailUnavailable, RpcError, OSError) as error:
        fail("Not added", error)
    except DeploymentFailed as error:
        fail("Added, but not deployed", error)


class AddChainWizard:
    """Asks for the missing settings of a chain, checks them and writes the chain's file."""

    def __init__(
        self, settings: Settings, options: AddChainOptions, prompt: OperatorPrompt
    ) -> None:
        self._settings = settings
        self._home = StateFolder(settings.home)
        self._options = options
        self._prompt = prompt

    async def run(self) -> None:
        """Check the chain, write its file, and deploy the contracts if wanted."""
        first, *more_urls = self._options.rpc_urls or (None,)
        url = self._prompt.ask_text("JSON-RPC URL of a node", "--rpc-url", first)
        installation_secrets = await read_secrets(self._settings, self._home)
        async with probe_node(url) as reached:
            for number, other in enumerate(more_urls, 2):
                await _require_same_chain(other, number, reached)
            name, path = self._choose_name(reached)
            ring = KeySource(self._settings, is_solana=reached.is_solana)
            relayers = self._choose_relayers(reached, ring, installation_secrets, path.stem)
            treasury, key = self._choose_treasury(reached, ring, path.stem)
            tokens = await self._choose_tokens(reached)
            settings = self._build_settings(reached, name, tokens)
            settings |= await self._choose_opener(reached)
            settings["rpc_url"] = [url, *more_urls] if more_urls else url
            settings["treasury"], settings["treasury_keystore"] = (
                treasury,
                self._format_keystore_path(key),
            )
            settings["relayer_keystores"] = [
                path_text for path_text in map(self._format_keystore_path, relayers) if path_text
            ]
        kind = "solana" if reached.is_solana else "evm"
        text = chain_writer.format_file(
            kind, {setting_name: value for setting_name, value in settings.items() if value != []}
        )
        chain = chain_files.parse_chain(text.encode(), path, self._home.path)
        await self._check_chain(chain, relayers)
        for asset, symbol in chain.asset_ids.items():
            print_hint(f"{symbol} is {asset}")
        unpriced = prices.list_unpriced(self._settings, chain)
        for link_problem in (*unpriced, *finality_rules.list_missing([chain])):
            print_hint(f"{link_problem}.")
        if not self._prompt.ask_yes_no(f"Write the chain to {path}?", default=True):
            raise SetupError("you answered no")
        for relayer in relayers:
            ring.write_keystore(relayer, "The relayer's")
        if key is not None:
            ring.write_keystore(key, "The treasury's")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace_private_file(path, text).close()
        document = {"file": str(path), "chain": chain.caip2, "assets": dict(chain.asset_ids)}
        if not print_json_line(document):
            console.print(str(path))
        if isinstance(chain, EvmChainSettings):
            await self._deploy_contracts(
                chain, [EvmSigner(chain_key.secret) for chain_key in (*relayers, key) if chain_key]
            )
        if chain.live and (link_problem := public_address.find_link_problem(self._base_url)):
            print_hint(
                f"{link_problem}: set FLORIN_PAY_URL to the https URL that buyers will open."
            )
        if chain.live and self._settings.demo is None and self._settings.has_demo:
            print_hint(
                "This chain has real money: from the next start, embedded chains and test accounts "
                "are off. Set FLORIN_DEMO=true to keep them, or use another state folder (--home)."
            )
        if self._home.find_addresses() is not None:
            print_hint("Florin runs: restart it to accept payments on this chain.")

    @property
    def _base_url(self) -> str:
        """Return the base URL of payment links, as far as it is known before a start."""
        settings = self._settings
        return (
            settings.pay_url.rstrip("/")
            or f"http://{format_address(settings.host, settings.http_port)}"
        )

    def _choose_name(self, reached: ProbedNode) -> tuple[str, Path]:
        """Return the name of the chain and the path of its file."""
        chain_id = self._options.chain_id
        if chain_id is not None and chain_id != reached.chain_id:
            raise SetupError(f"the node serves {reached.title}, not {chain_id}")
        if (network := find_unsupported(reached.chain_id)) is not None:
            raise SetupError(f"{network.name} ({network.id}) is not supported: it {network.reason}")
        if reached.network is None and chain_id is None:
            problem = f"the node serves {reached.title}, which is not in the registry"
            if not self._prompt.ask_yes_no(f"{problem}. Add it anyway?", default=False):
                raise SetupError(f"{problem}: use --chain {reached.chain_id} to add it anyway")
        configured: tuple[AnyChainSettings, ...] = (
            *self._settings.chains,
            *self._settings.solana_chains,
        )
        ids = {chain.caip2 for chain in configured}
        if self._settings.has_embedded:
            ids.add(EMBEDDED_EVM.chain_id)
        if self._settings.has_embedded_solana:
            ids.add(EMBEDDED_SOLANA.chain_id)
        if reached.chain_id in ids:
            raise SetupError(f"{reached.title} is already added")
        usual = None if reached.network is None else reached.network.name
        name = (
            self._options.name
            or usual
            or self._prompt.ask_text("Name of the chain", "--name", None)
        )
        path = chain_files.get_folder(self._home.path) / f"{to_file_name(name)}.toml"
        if path.stem == "" or path.exists():
            raise SetupError(f"cannot write the chain to {path}: choose another --name")
        print_hint(f"The node serves {reached.title}.")
        return name, path

    def _format_keystore_path(self, key: ChainKey | None) -> str | None:
        """Return the path of a keystore for the chain's file; new ones relative to the folder."""
        if key is None or key.keystore is None:
            return None
        return str(key.keystore.relative_to(self._home.path) if key.is_new else key.keystore)

    def _choose_relayers(
        self,
        reached: ProbedNode,
        key_source: KeySource,
        installation_secrets: InstallationSecrets,
        stem: str,
    ) -> tuple[ChainKey, ...]:
        """Return the keys of the relayers, which submit transactions and pay for gas."""
        wishes = self._options
        if wishes.relayer_keystores:
            return tuple(map(key_source.open_keystore, wishes.relayer_keystores))
        keystore = self._get_keystore_path(stem, "relayer")
        if wishes.new_relayer or wishes.relayer_key_file is not None:
            return (key_source.create_key(keystore, wishes.relayer_key_file),)
        question = (
            f"Relayer key: {_OWN_KEY} (this installation's), {_NEW_KEY}, or path of a keystore"
        )
        choice = self._prompt.ask_text(question, "--new-relayer", None, _OWN_KEY)
        if choice == _OWN_KEY:
            return (
                ChainKey(
                    installation_secrets.solana_relayer_seed
                    if reached.is_solana
                    else installation_secrets.relayer_key
                ),
            )
        return (
            key_source.create_key(keystore)
            if choice == _NEW_KEY
            else key_source.open_keystore(Path(choice)),
        )

    def _choose_treasury(
        self, reached: ProbedNode, key_source: KeySource, stem: str
    ) -> tuple[str, ChainKey | None]:
        """Return the treasury's account, and its key if Florin pays out of it."""
        wishes, keystore = self._options, self._get_keystore_path(stem, "treasury")
        key = None
        if wishes.treasury_keystore is not None:
            key = key_source.open_keystore(wishes.treasury_keystore)
        elif wishes.new_treasury or wishes.treasury_key_file is not None:
            key = key_source.create_key(keystore, wishes.treasury_key_file)
        question = f"Treasury (the account that receives fees), or {_NEW_KEY}"
        usual = None if key is None else key_source.get_address(key)
        address = self._prompt.ask_text(question, "--treasury", wishes.treasury, usual)
        if address == _NEW_KEY and key is None:
            key = key_source.create_key(keystore)
            address = key_source.get_address(key)
        if ":" in address and str(parse_account(address).chain) != reached.chain_id:
            raise SetupError(f"the treasury {address} is on another chain")
        address = address.rpartition(":")[2]
        if key is not None:
            own = key_source.get_address(key)
            # base58 is case-sensitive: another case is another account
            same = own == address if reached.is_solana else own.lower() == address.lower()
            if not same:
                raise SetupError(f"the treasury is {address}, but the key belongs to {own}")
            print_hint(f"Treasury: {address}")
        return address, key

    def _get_keystore_path(self, stem: str, owner: str) -> Path:
        return self._home.path / "keys" / f"{stem}-{owner}.json"

    async def _choose_opener(self, reached: ProbedNode) -> dict[str, Any]:
        """Return the settings of the opener, which creates accounts at first use, if wanted."""
        wishes = self._options
        if not wishes.takes_opener and not wishes.factories:
            return {}
        if reached.is_solana:
            raise SetupError("accounts on Solana need no opener and no factories")
        factories = await check_factories(reached.rpc, reached.title, wishes.factories)
        return {
            "opener": format_checksum_address(load_opener_contract().address),
            "factories": factories,
        }

    async def _choose_tokens(self, reached: ProbedNode) -> list[TokenChoice]:
        """Return the tokens to accept; by default all valid ones of the registry."""
        tokens = () if reached.network is None else reached.network.tokens
        usual = " ".join(token.symbol for token in tokens)
        wished = self._options.tokens
        if wished is None and not self._prompt.is_quiet:
            question = "Tokens to accept (SYMBOL or ADDRESS:PEG:SYMBOL)"
            answer = self._prompt.ask_text(question, "--token", None, usual)
            wished = None if answer == usual else tuple(answer.replace(",", " ").split())
        chosen = []
        for text in wished if wished is not None else [token.symbol for token in tokens]:
            try:
                token_choice = await check_token(reached, TokenRequest.parse(text))
            except SetupError as refusal:
                if wished is not None:
                    raise
                print_hint(f"Token skipped: {refusal}.")
                continue
            print_hint(token_choice.description)
            chosen.append(token_choice)
        return chosen

    def _build_settings(
        self, reached: ProbedNode, name: str, tokens: list[TokenChoice]
    ) -> dict[str, Any]:
        """Return the chain's settings that differ from the registry."""
        wishes, is_registered = self._options, reached.network is not None
        live = wishes.is_live
        if live is None and not is_registered:
            live = self._prompt.ask_yes_no("Does this chain have real money?", default=False)
        settings: dict[str, Any] = {
            "name": None if is_registered and wishes.name is None else name,
            "live": live,
            "poll_ms": wishes.poll_ms,
            "tokens": [
                token_choice.symbol for token_choice in tokens if token_choice.settings is None
            ],
            "assets": [
                token_choice.settings
                for token_choice in tokens
                if token_choice.settings is not None
            ],
        }
        if reached.is_solana:
            settings["coin"] = (
                SolanaCoinSettings().model_dump(exclude_none=True) if wishes.takes_coin else None
            )
            return {"reference": reached.chain_id.partition(":")[2], **settings}
        usual = reached.network.pace.confirmations if reached.network else _CONFIRMATIONS
        confirmations = self._prompt.ask_text(
            "Confirmation depth, in blocks",
            "--confirmations",
            None if wishes.confirmations is None else str(wishes.confirmations),
            str(usual),
        )
        if wishes.takes_coin and reached.network is not None and reached.network.coin is None:
            raise SetupError(f"{reached.title} has no native coin: leave out --coin")
        if wishes.takes_coin:
            coin = reached.network.coin if reached.network else None
            settings["coin"] = {
                "name": coin.name if coin else "Ether",
                "symbol": coin.symbol if coin else "ETH",
            }
        fee_max = self._prompt.ask_text(
            "Most to pay per unit of gas, in gwei",
            "--fee-max-gwei",
            None if wishes.fee_max_gwei is None else str(wishes.fee_max_gwei),
            str(EvmChainSettings.model_fields["fee_max"].default // GWEI),
        )
        settings["fee_max"] = int(fee_max) * GWEI
        settings["tip_max"] = None if wishes.tip_max_gwei is None else wishes.tip_max_gwei * GWEI
        settler = wishes.settler or format_checksum_address(load_settlement_contract().address)
        return {
            "chain_id": reached.evm_chain_id,
            **settings,
            "confirmations": int(confirmations),
            "settler": settler,
        }

    async def _check_chain(self, chain: AnyChainSettings, relayers: tuple[ChainKey, ...]) -> None:
        """Print the problems of the chain; SetupError if a relayer is the treasury."""
        rail = _build_rail(chain, [chain_key.secret for chain_key in relayers])
        connected.require_separate_treasury(chain, rail.senders)
        try:
            problems = await list_node_faults(rail)
        finally:
            await rail.close()
        for sender in rail.senders:
            print_hint(f"Relayer: {sender}")
        for problem in problems:
            print_hint(problem)

    async def _deploy_contracts(self, chain: EvmChainSettings, signers: list[EvmSigner]) -> None:
        """Deploy missing contracts if the operator agrees; the first signer pays for them."""
        signer = signers[0]
        if chain.settler != load_settlement_contract().address:
            return
        absent = [
            planned_contract
            for planned_contract in deploy.list_planned_contracts(chain)
            if not await planned_contract.is_deployed(chain, signer)
        ]
        if not absent:
            return
        names = " and ".join(planned_contract.title for planned_contract in absent)
        if self._prompt.ask_yes_no(
            f"Not deployed yet: {names}. Deploy now?", self._options.deploys, default=False
        ):
            for each_planned_contract in deploy.list_planned_contracts(chain):
                await each_planned_contract.ensure_deployed(chain, signer, self._prompt)
            for key in signers:
                await deploy.choose_fee_token(chain, key, self._prompt)
        else:
            print_hint(
                f"Next: send some of {get_gas_money_name(chain)} for gas to "
                f"{format_checksum_address(signer.address)}, "
                f"then run `florin chain deploy {chain.caip2}` to deploy: {names}."
            )


async def _require_same_chain(url: str | None, number: int, first_node: ProbedNode) -> None:
    """Raise SetupError if another node cannot be used, or serves another chain."""
    async with probe_node(url or "") as reached:
        if reached.chain_id != first_node.chain_id:
            problem = f"node {number} serves {reached.title}, but node 1 serves {first_node.title}"
            raise SetupError(problem)


def _build_rail(chain: AnyChainSettings, secrets: list[bytes]) -> EvmRail | SolanaRail:
    first, *more_secrets = secrets
    if isinstance(chain, EvmChainSettings):
        return EvmRail(
            chain,
            EvmSigner(first),
            additional_signers=[EvmSigner(secret) for secret in more_secrets],
        )
    if more_secrets:
        raise SetupError("Solana allows only one relayer key: pass --relayer-keystore once")
    return SolanaRail(chain, SolanaSigner(first))
