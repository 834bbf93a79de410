"""Code of tokens that report a transfer falsely or not at all, or keep a part of it."""

from __future__ import annotations

SILENT_TOKEN = bytes.fromhex("00")  # accepts everything, returns nothing
FALSE_TOKEN = bytes.fromhex("5f5f5260205ff3")  # accepts everything, returns false
# Keeps 1% of each transfer, and reports all of it. Anyone can set a balance: `mint`.
FEE_TOKEN = bytes.fromhex(
    "5f3560e01c806370a08231146026578063a9059cbb14603a57806340c10f19146031575f5ffd5b60"
    "0435545f5260205ff35b60243560043555005b602435335403335560646063602435020460043554"
    "01600435556024355f52600435337fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628"
    "f55a4df523b3ef60205fa360015f5260205ff3"
)
