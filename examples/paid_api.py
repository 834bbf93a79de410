"""A paid API: each call costs a cent, and Florin's facilitator settles it (x402)."""

import os

from flask import Flask
from x402.http import HTTPFacilitatorClientSync, PaymentOption, RouteConfig
from x402.http.middleware.flask import payment_middleware_from_config
from x402.mechanisms.evm.exact import ExactEvmServerScheme

app, headers = Flask(__name__), {"Api-Key": os.environ["FACILITATOR_KEY"]}
create_headers = lambda: dict.fromkeys(("supported", "verify", "settle"), headers)  # noqa: E731
url, network = os.environ["FACILITATOR_URL"], os.environ["NETWORK"]
florin = HTTPFacilitatorClientSync({"url": url, "create_headers": create_headers})
domain = {"name": os.environ["TOKEN_NAME"], "version": os.environ["TOKEN_VERSION"]}
price = {"amount": "10000", "asset": os.environ["TOKEN"], "extra": domain}
accepts = PaymentOption(scheme="exact", pay_to=os.environ["PAY_TO"], price=price, network=network)
schemes = [{"network": network, "server": ExactEvmServerScheme()}]
payment_middleware_from_config(app, {"GET /": RouteConfig(accepts=accepts)}, florin, schemes)
app.add_url_rule("/", view_func=lambda: {"weather": "sunny"})
app.run(port=int(os.environ["PORT"]))
