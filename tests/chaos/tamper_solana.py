"""Tamper with Solana transactions in every way that a wallet could, and sign the results.

    python -m tests.chaos.tamper_solana MUTANTS [SEED] [PLANTED BUG]

Each mutant is a changed transaction: bytes flipped, cut, doubled or moved, or instructions added,
dropped, reordered and edited, usually signed again by the payer. The rail's check either refuses it
as documented or accepts it. Accepted mutants are executed on a copy of the chain, which is the
judge. The relayer must lose fee and rent only, the buyer must pay the price, and merchant and
operator must get their shares. Prints one JSON object. Exits with 1 if anything was accepted
wrongly or crashed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from florin_server.domain.chains.solana import spl
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, PaymentOption, ResolvedBuild
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.solana.paying import check as checking
from florin_server.rails.solana.paying import terms
from florin_server.rails.solana.paying.check import compute_highest_fee
from florin_server.rails.solana.paying.message import compile_message, serialize_message
from florin_server.rails.solana.settings import SolanaChainSettings, SolanaCoinSettings
from florin_server.rails.solana.setup.discovery import build_coin_asset, build_token_asset
from florin_server.rails.types import Asset, PayableAsset
from solders.account import Account
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata

from tests.support.evm_harness import make_payment
from tests.support.solana import list_instructions, rebuild_transaction
from tests.support.solana_rail_harness import (
    MERCHANT,
    RELAYER,
    TREASURY,
    make_asset,
    make_chain_settings,
    make_split,
)

RECENT = Hash.hash(b"recent")
VALUE, FEE = 1_500_000, 40_000
HELD = 10**9
FEE_MAX = make_chain_settings().payment_fee_max
BUYER = Keypair.from_seed(hashlib.sha256(b"buyer").digest())
THIEF = Keypair.from_seed(hashlib.sha256(b"thief").digest())
REASONS = {"unreadable_output", "transaction_mismatch", "signature_mismatch"}
BUGS: dict[str, Callable[[], None]] = {
    "accept-all": lambda: setattr(checking, "is_acceptable", lambda *_: True),
}


@dataclass
class World:
    """One issued transaction, and a chain on which it can be executed.

    `nonce` is the account whose value replaces the blockhash, if it has one. `owners` are those
    whose coin is counted, `places` their token accounts.
    """

    svm: LiteSVM
    option: PaymentOption
    issued: ResolvedBuild
    message: MessageV0
    owners: dict[str, Pubkey]
    places: dict[str, Pubkey]
    nonce: Pubkey | None

    @property
    def is_coin(self) -> bool:
        return terms.SolanaOptionTerms.from_option(self.option).is_coin

    @property
    def signed_transaction(self) -> bytes:
        return sign(VersionedTransaction.populate(self.message, [Signature.default()] * 2))

    def read_amounts(self, accounts: dict[Pubkey, Account]) -> dict[str, int]:
        """Return tokens by owner, and all coin."""
        results = {}
        for name, place in self.places.items():
            account = accounts.get(place) or self.svm.get_account(place)
            held = spl.parse_token_account(bytes(account.data)) if account else None
            results[name] = held.amount if held else 0
        for name, owner in self.owners.items():
            account = accounts.get(owner) or self.svm.get_account(owner)
            results[f"{name}'s coin"] = account.lamports if account else 0
        return results

    @property
    def expected_changes(self) -> dict[str, int]:
        """Return the expected changes by account, except what the relayer pays."""
        unchanged = dict.fromkeys(self.read_amounts({}), 0)
        del unchanged["relayer's coin"]
        kind = "'s coin" if self.is_coin else ""
        moved = {"buyer": -VALUE, "merchant": VALUE - FEE, "treasury": FEE}
        return {**unchanged, **{f"{name}{kind}": amount for name, amount in moved.items()}}


def create_world(*, coin: bool = False, durable: bool = False) -> World:
    token, chain = make_asset(), make_chain_settings(faucet=False, coin=SolanaCoinSettings())
    mint = spl.parse_pubkey(token.mint)
    svm = LiteSVM().with_blockhash_check(False).with_sigverify(True).with_transaction_history(0)
    memo = svm.get_account(spl.MEMO)
    assert memo is not None
    # the real program is not available: a program that checks and changes nothing replaces it
    svm.add_program(spl.LIGHTHOUSE, get_elf(svm, memo))
    rent = svm.minimum_balance_for_rent_exemption(spl.MINT_BYTES)
    mint_data = b"\x01\0\0\0" + bytes(THIEF.pubkey()) + HELD.to_bytes(8, "little") + b"\x06\x01"
    svm.set_account(mint, Account(rent, mint_data + bytes(36), spl.TOKEN))
    owners = {
        "buyer": BUYER.pubkey(),
        "merchant": spl.parse_pubkey(MERCHANT),
        "treasury": spl.parse_pubkey(TREASURY),
        "thief": THIEF.pubkey(),
        "relayer": RELAYER.pubkey,
    }
    for owner in owners.values():
        svm.set_account(owner, Account(10**10, b"", spl.SYSTEM))
    nonce = spl.derive_nonce_address(RELAYER.pubkey, "florin nonce 0") if durable else None
    if nonce is not None:
        data = struct.pack("<II", 1, 1) + bytes(RELAYER.pubkey) + bytes(RECENT)
        svm.set_account(nonce, Account(10**7, data + struct.pack("<Q", 5000), spl.SYSTEM))
        owners["nonce"] = nonce
    places = {
        name: spl.derive_associated_address(owner, mint, spl.TOKEN)
        for name, owner in owners.items()
    }
    rent = svm.minimum_balance_for_rent_exemption(spl.ACCOUNT_BYTES)
    for name, amount in (("buyer", HELD), ("thief", 0), ("relayer", HELD)):
        data = bytes(mint) + bytes(owners[name]) + amount.to_bytes(8, "little")
        data = (data + bytes(36) + b"\x01").ljust(spl.ACCOUNT_BYTES, b"\0")
        svm.set_account(places[name], Account(rent, data, spl.TOKEN))
    chosen = (
        build_coin_asset(chain, SolanaCoinSettings()) if coin else build_token_asset(chain, token)
    )
    option, issued, message = make_offer(chain, make_payment(), owners["buyer"], chosen, nonce)
    return World(svm, option, issued, message, owners, places, nonce)


def get_elf(svm: LiteSVM, program: Account) -> bytes:
    """Return a program's code, wherever its loader stores it."""
    data = bytes(program.data)
    if data[:4] == b"\x7fELF":
        return data
    account = svm.get_account(Pubkey.from_bytes(data[4:36]))
    assert account is not None
    code = bytes(account.data)
    return code[code.index(b"\x7fELF") :]


def make_offer(
    chain: SolanaChainSettings, payment: Payment, buyer: Pubkey, asset: Asset, nonce: Pubkey | None
) -> tuple[PaymentOption, ResolvedBuild, MessageV0]:
    payer = f"{chain.caip2}:{buyer}"
    program = asset.address if asset.peg is None else str(spl.TOKEN)
    offered = OptionOffer(
        payment, payer, PayableAsset(payer, asset.id), asset, VALUE, make_split(FEE), now_us=0
    )
    option = terms.build_option(chain, offered, program)
    own = terms.SolanaOptionTerms.from_option(option).build_instructions(
        chain, RELAYER.pubkey, str(buyer)
    )
    good: dict[str, object] = {"last_valid": 150}
    if nonce is not None:
        own.insert(0, spl.advance_nonce(nonce, RELAYER.pubkey))
        good = {"nonce": str(nonce), "slot": 1}
    message = compile_message(RELAYER.pubkey, own, RECENT)
    issued = ResolvedBuild(
        payment.id, option.id, 0, (), {"message": serialize_message(message), **good}, 0, 0
    )
    return option, issued, message


# ---- mutants


def sign(transaction: VersionedTransaction) -> bytes:
    """Sign as the payer and as a thief, wherever their keys are signers."""
    message = transaction.message
    content = to_bytes_versioned(message)
    signatures = list(transaction.signatures)
    for key in (BUYER, THIEF):
        for index, pubkey in enumerate(message.account_keys[: len(signatures)]):
            if pubkey == key.pubkey():
                signatures[index] = key.sign_message(content)
    return bytes(VersionedTransaction.populate(message, signatures))


def make_mutant(world: World, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return edit_instructions(world, rng)
    raw = corrupt(bytearray(world.signed_transaction), rng)
    if rng.random() < 0.7:
        try:
            raw = sign(VersionedTransaction.from_bytes(raw))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001  (what cannot be signed is sent as it is)
            return raw
    return raw


def corrupt(raw: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(raw))
        match rng.randrange(6):
            case 0:
                raw[at] ^= 1 << rng.randrange(8)
            case 1:
                raw[at] = rng.randrange(256)
            case 2:
                del raw[at]
            case 3:
                raw.insert(at, rng.randrange(256))
            case 4:
                size = rng.randrange(1, 40)
                raw[at:at] = raw[at : at + size]
            case _:
                other = rng.randrange(len(raw))
                raw[at : at + 32], raw[other : other + 32] = (
                    raw[other : other + 32],
                    raw[at : at + 32],
                )
        if not raw:
            break
    return bytes(raw)


def edit_instructions(world: World, rng: random.Random) -> bytes:
    """Change instructions with knowledge of their meaning."""
    own = list_instructions(world.message)
    priced = 1 if world.nonce is None else 2
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(own) + 1)
        match rng.randrange(8):
            case 0:
                own.insert(at, make_theft(world, rng))
            case 1:
                own.insert(at, make_guard(world, rng))
            case 2:
                own[priced % len(own)] = set_compute_unit_price(
                    rng.choice((0, 1, 10**5, 5 * 10**6, 10**9, 2**63))
                )
            case 3 if len(own) > 1:
                del own[at % len(own)]
            case 4:
                rng.shuffle(own)
            case 5:
                own.insert(at, own[at % len(own)])
            case 6:
                instruction = own[at % len(own)]
                data = corrupt(bytearray(bytes(instruction.data) or b"\0"), rng)
                own[at % len(own)] = Instruction(instruction.program_id, data, instruction.accounts)
            case _:
                own[at % len(own)] = redirect_account(world, own[at % len(own)], rng)
    try:
        return sign(rebuild_transaction(world.message, own))
    except ValueError:
        return world.signed_transaction[:-1]


def make_theft(world: World, rng: random.Random) -> Instruction:
    """Return an instruction that steals."""
    mint, places = spl.parse_pubkey(make_asset().mint), world.places
    giver = rng.choice((RELAYER.pubkey, BUYER.pubkey()))
    taker = rng.choice((THIEF.pubkey(), spl.parse_pubkey(MERCHANT), RELAYER.pubkey))
    return rng.choice(
        (
            spl.transfer_coin(giver, taker, rng.randrange(1, 10**9)),
            spl.transfer_coin(giver, taker, VALUE - FEE),
            spl.create_associated_account(RELAYER.pubkey, Keypair().pubkey(), mint, spl.TOKEN),
            spl.mint_to(spl.TOKEN, mint, places["thief"], THIEF.pubkey(), 7),
            spl.transfer_checked(
                spl.TOKEN,
                mint,
                6,
                owner=RELAYER.pubkey,
                source=places["relayer"],
                dest=places["thief"],
                amount=rng.randrange(1, HELD),
            ),
            spl.create_memo("another note"),
            *list_nonce_thefts(world.nonce or THIEF.pubkey(), rng),
            set_compute_unit_limit(1_400_000),
        )
    )


def list_nonce_thefts(nonce: Pubkey, rng: random.Random) -> tuple[Instruction, ...]:
    """Return what a nonce's authority could do: use it again, take its coin, give it away."""
    instruction = spl.advance_nonce(nonce, RELAYER.pubkey)
    out = [AccountMeta(THIEF.pubkey(), is_signer=False, is_writable=True)]
    rent = Pubkey.from_string("SysvarRent111111111111111111111111111111111")
    withdrawn = [
        instruction.accounts[0],
        *out,
        instruction.accounts[1],
        AccountMeta(rent, is_signer=False, is_writable=False),
        instruction.accounts[2],
    ]
    amount = struct.pack("<IQ", 5, rng.randrange(1, 10**7))
    handed = struct.pack("<I", 7) + bytes(THIEF.pubkey())
    return (
        instruction,
        Instruction(spl.SYSTEM, amount, withdrawn),
        Instruction(spl.SYSTEM, handed, [instruction.accounts[0], instruction.accounts[2]]),
    )


def make_guard(world: World, rng: random.Random) -> Instruction:
    keys = rng.sample(list(world.message.account_keys), rng.randrange(3))
    accounts = [AccountMeta(key, rng.random() < 0.2, rng.random() < 0.2) for key in keys]
    # two in three are assertions; the others write to memory or call other programs
    kind = rng.choice((0, 1, 15, 2, 3, 4, 5, 8, 14))
    data = bytes([kind, *(rng.randrange(64, 90) for _ in range(8))])
    return Instruction(spl.LIGHTHOUSE, data, accounts)


def redirect_account(world: World, instruction: Instruction, rng: random.Random) -> Instruction:
    if not instruction.accounts:
        return instruction
    accounts = list(instruction.accounts)
    at = rng.randrange(len(accounts))
    key = rng.choice([*world.places.values(), *world.owners.values()])
    accounts[at] = AccountMeta(key, accounts[at].is_signer, accounts[at].is_writable)
    return Instruction(instruction.program_id, bytes(instruction.data), accounts)


# ---- verdicts


def execute_mutant(world: World, submission: checking.PayerSignedMessage) -> str:
    """Execute an accepted transaction; return its result, or "wrong" if it breaks the promise."""
    sent = RELAYER.co_sign(submission.message, submission.signature)
    outcome = world.svm.simulate_transaction(VersionedTransaction.from_bytes(sent.raw))
    if (
        world.nonce is not None
        and list_instructions(submission.message)[0] != list_instructions(world.message)[0]
    ):
        return "wrong: the nonce is not used up"
    if isinstance(outcome, FailedTransactionMetadata):
        # nothing moves except the fee
        return "fails"
    before, after = world.read_amounts({}), world.read_amounts(dict(outcome.post_accounts()))
    rent = world.svm.minimum_balance_for_rent_exemption(spl.ACCOUNT_BYTES)
    changes = {name: after[name] - before[name] for name in after}
    cost = -changes.pop("relayer's coin")
    try:
        fee = compute_highest_fee(submission.message)
    except struct.error:
        return "wrong: a compute budget that cannot be read"
    opened = 0 if world.is_coin else 2
    if changes != world.expected_changes or cost > fee + opened * rent or fee > FEE_MAX:
        return f"wrong: {changes}, {cost}"
    return "pays"


def campaign(mutants: int, seed: int = 0) -> dict[str, object]:
    """Try mutants of payments in a token, in coin, and of both with a nonce, in turn."""
    rng = random.Random(seed)
    worlds = {
        "token": create_world(),
        "coin": create_world(coin=True),
        "token, nonce": create_world(durable=True),
        "coin, nonce": create_world(coin=True, durable=True),
    }
    counts: dict[str, Counter[str]] = {name: Counter() for name in worlds}
    wrong: list[str] = []
    for world in worlds.values():
        assert execute_mutant(world, check_mutant(world, world.signed_transaction)) == "pays"
    for number in range(mutants):
        name = tuple(worlds)[number % len(worlds)]
        world, outcomes = worlds[name], counts[name]
        raw = make_mutant(world, rng)
        try:
            submission = check_mutant(world, raw)
        except ApiError as refusal:
            reason = refusal.details.get("reason", "")
            outcomes[reason] += 1
            if refusal.code is not ErrorCode.INVALID_PARAMS or reason not in REASONS:
                wrong.append(f"{base64.b64encode(raw).decode()}: refused as {refusal}")
            continue
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as fault:  # noqa: BLE001  (a library's panic is no Exception)
            wrong.append(f"{base64.b64encode(raw).decode()}: {type(fault).__name__} {fault}")
            continue
        outcome = execute_mutant(world, submission)
        outcomes[outcome.partition(":")[0]] += 1
        if outcome.startswith("wrong"):
            wrong.append(f"{base64.b64encode(raw).decode()}: {outcome}")
    result = {name: dict(sorted(outcomes.items())) for name, outcomes in counts.items()}
    return {"mutants": mutants, "outcomes": result, "wrong": wrong}


def check_mutant(world: World, raw: bytes) -> checking.PayerSignedMessage:
    output = json.dumps(base64.b64encode(raw).decode())
    return checking.check_submission(world.option, [world.issued], [output], make_chain_settings())


def main() -> int:
    values = sys.argv[1:]
    if len(values) > 2:
        BUGS[values[2]]()
    result = campaign(int(values[0]), int(values[1]) if len(values) > 1 else 0)
    print(json.dumps(result))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
