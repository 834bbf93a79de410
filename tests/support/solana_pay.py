"""A wallet that knows only a payment's Solana Pay link, and what attackers do with it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.domain.payments.option_names import derive_reference
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from tests.support.service_harness import ServiceHarness, ServiceResponse
from tests.support.solana import SolanaNodeClient, SolanaTestWallet
from tests.support.until import advance, wait_until

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}
PRICE = 12_500_000


async def post_account(
    service: ServiceHarness, payment_id: str, account: Any, headers: Any = None
) -> ServiceResponse:
    return await service.ask("POST", f"/solana/{payment_id}", headers, {"account": account})


async def fund(node: SolanaNodeClient, wallet: SolanaTestWallet) -> None:
    """Give a wallet tokens and coin for fees."""
    await node.ask("florin_faucet", {"accounts": [wallet.address]})


async def fetch_transaction(
    service: ServiceHarness, payment_id: str, wallet: SolanaTestWallet
) -> Transaction:
    response = await post_account(service, payment_id, wallet.address)
    assert response.status == 200, response.text
    return Transaction.from_bytes(base64.b64decode(response.body["transaction"], validate=True))


def list_legacy_instructions(message: Message) -> list[Instruction]:
    """Return the instructions of a message, as a wallet parses them."""
    keys, header = message.account_keys, message.header
    signers = header.num_required_signatures
    writing = [
        *range(signers - header.num_readonly_signed_accounts),
        *range(signers, len(keys) - header.num_readonly_unsigned_accounts),
    ]
    return [
        Instruction(
            keys[compiled_instruction.program_id_index],
            bytes(compiled_instruction.data),
            [
                AccountMeta(
                    keys[index],
                    is_signer=index < signers,
                    is_writable=index in writing,
                )
                for index in bytes(compiled_instruction.accounts)
            ],
        )
        for compiled_instruction in message.instructions
    ]


async def send_instructions(
    node: SolanaNodeClient,
    wallet: SolanaTestWallet,
    instructions: Sequence[Instruction],
    *,
    fee_payer: Keypair | None = None,
    skip_preflight: bool = False,
) -> str:
    """Sign with a new blockhash, as wallets do, and send; return the signature."""
    latest = await node.ask("getLatestBlockhash", {"commitment": "finalized"})
    signers = [wallet.key] if fee_payer is None else [fee_payer, wallet.key]
    message = Message(list(instructions), signers[0].pubkey())
    transaction = Transaction(signers, message, Hash.from_string(latest["value"]["blockhash"]))
    encoded = base64.b64encode(bytes(transaction)).decode()
    signature: str = await node.ask(
        "sendTransaction", encoded, {"encoding": "base64", "skipPreflight": skip_preflight}
    )
    return signature


async def find_address(service: ServiceHarness, payment_id: str) -> Pubkey:
    """Return the address that transactions of a payment name."""
    payment = await service.service.app.store.payments.find(payment_id)
    assert payment is not None
    return Pubkey.from_bytes(derive_reference(payment.salt, payment.id))


def name_address(instruction: Instruction, *addresses: Pubkey) -> Instruction:
    more = [AccountMeta(address, is_signer=False, is_writable=False) for address in addresses]
    return Instruction(
        instruction.program_id, bytes(instruction.data), [*instruction.accounts, *more]
    )


def make_transfer(wallet: SolanaTestWallet, owner: str, amount: int, token: int = 0) -> Instruction:
    minted = SOLANA_DEVNET.tokens[token]
    mint, program = spl.parse_pubkey(minted.address), spl.parse_pubkey(minted.program)
    payer = wallet.key.pubkey()
    return spl.transfer_checked(
        program,
        mint,
        minted.decimals,
        owner=payer,
        source=spl.derive_associated_address(payer, mint, program),
        dest=spl.derive_associated_address(spl.parse_pubkey(owner), mint, program),
        amount=amount,
    )


async def let_time_pass(service: ServiceHarness, node: SolanaNodeClient, turns: int = 6) -> None:
    """Advance clock and slots until everything that was sent is final and was looked at."""
    worker = service.service.app.settlers[SOLANA_DEVNET.chain_id]
    for _ in range(turns):
        before = worker.head
        service.clock.advance(1.5)
        await node.fault("slots", slots=2)

        async def has_looked(before: int = before) -> bool:
            return worker.head > before

        await wait_until(has_looked)


async def wait_status(
    service: ServiceHarness, node: SolanaNodeClient, payment_id: str, status: str
) -> dict[str, Any]:
    """Return the payment's detail once it has a status, while time passes."""

    async def move() -> None:
        await advance(service.clock, 1.5)
        await node.fault("slots", slots=2)

    async def read() -> str:
        return str((await service.rest.status(payment_id))["status"])

    await wait_until(read, status, meanwhile=move)
    detail: dict[str, Any] = await service.rest.detail(payment_id)
    return detail


async def open_link(
    service: ServiceHarness, payment_id: str, asset: str | None = None
) -> ServiceResponse:
    """Request the link with which a wallet makes the transfer itself."""
    body = {} if asset is None else {"asset": asset}
    return await service.ask("POST", f"/solana/{payment_id}/transfer", None, body)


def read_link(url: str) -> tuple[str, dict[str, str]]:
    """Return the recipient and the parameters of a link."""
    recipient, _, query = url.removeprefix("solana:").partition("?")
    return recipient, dict(parse_qsl(query, strict_parsing=True))


def make_linked_transfer(
    wallet: SolanaTestWallet, link: ServiceResponse, difference: int = 0
) -> Instruction:
    """Return the transfer that a wallet makes of a link in the first token."""
    recipient, query = read_link(link.body["url"])
    assert query["spl-token"] == SOLANA_DEVNET.tokens[0].address
    value = int(link.body["amount"]["value"]) + difference
    reference = Pubkey.from_string(query["reference"])
    return name_address(make_transfer(wallet, recipient, value), reference)


async def give_coin(service: ServiceHarness) -> None:
    """Give the merchant's wallet coin, without which wallets do not find it."""
    node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
    owner = service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    await node.ask("requestAirdrop", owner, 10_000_000)
