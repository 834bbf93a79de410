"""Units of the numbers in the settings: by the ending of their names, and else one by one."""

from __future__ import annotations

# the first match counts
_UNIT_BY_ENDING = (
    ("basis_points", "hundredths of a percent"),
    ("percent", "percent"),
    ("per_minute", "calls a minute"),
    ("per_hour", "nonces an hour"),
    ("burst", "calls"),
    ("bytes_max", "bytes"),
    ("answer_bytes", "bytes"),
    ("endpoints_max", "endpoints"),
    ("concurrency", "attempts at a time"),
    ("attempts_kept", "attempts"),
    ("days", "days"),
    ("_ms", "milliseconds"),
    ("_s_max", "seconds"),
    ("_s", "seconds"),
    ("port", "port"),
    ("decimals", "decimal places"),
    ("slip44", "SLIP-44 number"),
    ("compute_units", "compute units"),
    ("compute_units_max", "compute units"),
    ("wallet_guards_max", "instructions"),
    ("compute_price", "millionths of a lamport for each compute unit"),
    ("compute_price_max", "millionths of a lamport for each compute unit"),
    ("fee_max", "wei for a unit of gas"),
    ("tip_max", "wei for a unit of gas"),
    ("gas_max", "units of gas"),
    ("gas_reserve", "payments"),
    ("confirmations", "blocks"),
    ("finalized_slots", "slots"),
    ("batch_max", "calls"),
    ("agreement", "nodes"),
    ("chain_id", "EIP-155 chain id"),
    ("accounts_a_day", "accounts a day"),
    ("accounts_a_merchant_day", "accounts a day"),
    ("accounts_a_partner_day", "accounts a day"),
    ("durable_nonces", "buyers"),
    ("settle_batch", "payments"),
    ("amount_min", "minor units"),
    ("from_amount", "minor units"),
    ("fee_fixed", "millionths"),
    ("refund_credit", "minor units"),
    ("accounts_max", "accounts"),
    ("refunds_max", "refunds"),
    ("options_max", "options"),
    ("options_per_caller", "options"),
    ("options_per_payment", "options"),
    ("headers_max", "headers"),
    ("backlog", "connections"),
    ("ratio", "share of 1"),
    ("spans_per_second", "spans a second"),
)
_UNIT_BY_TABLE = {
    "DatabaseSettings": "connections",
    "FacilitatedFeeSettings": "lamports an hour",
    "FacilitatedGasSettings": "units of gas an hour",
    "FailedFeeSettings": "lamports an hour",
    "RefundCreditSettings": "minor units",
    "FailedGasSettings": "units of gas an hour",
    "SolanaChainSettings.fee_max": "lamports",
    "SolanaChainSettings.lag_max": "slots",
    "NodeSettings.lag_max": "blocks",
    "EvmChainSettings.lag_max": "blocks",
    "EventSinkSettings.revision": "number",
    "ForwarderSettings.sweep_factor": "times the cost",
    "ForwarderSettings.hot_max": "addresses",
}


def get_unit(table: str, name: str) -> str:
    """Return the unit of a number.

    Raise LookupError if no unit is known: end the name in its unit.
    """
    if listed_unit := _UNIT_BY_TABLE.get(f"{table}.{name}") or _UNIT_BY_TABLE.get(table):
        return listed_unit
    if name.startswith("held_"):
        return "open streams"
    for ending, unit in _UNIT_BY_ENDING:
        if name.endswith(ending):
            return unit
    raise LookupError(f"{table}.{name}: tools/reference/units.py has no unit for it")
