"""Claims of buyers for held money of a merchant's payment, and the merchant's decision."""

from __future__ import annotations

from florin.v1 import held_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.fields import parse_choice
from florin_server.web.console.merchant import payment
from florin_server.web.console.site import ConsoleRequest

PATH = f"{payment.PATH}/claims"
VERDICTS = {
    "confirm": "MerchantService.ConfirmDepositClaim",
    "reject": "MerchantService.RejectDepositClaim",
}


async def confirm_decide(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a decision about a claim: the money that returns, and its recipient."""
    form, formatter, texts = (
        console_request.form,
        console_request.formatter,
        console_request.texts,
    )
    verdict = form.text("verdict")
    parse_choice(verdict, VERDICTS, "verdict")
    claims = await payment.list_claims(console_request)
    claim = next((item for item in claims if item.claim_id == form.text("claim")), None)
    if claim is None:
        raise ApiError(ErrorCode.NOT_FOUND, "Deposit claim not found")
    return ActionConfirmation(
        title=texts.plain(f"claims.ask.{verdict}"),
        button=texts.plain(f"claims.button.{verdict}"),
        back=payment.get_page_path(console_request),
        facts=(
            (texts.plain("amount"), formatter.minor(claim.asset, claim.amount)),
            (texts.plain("recipient"), claim.account),
            (texts.plain("held.claim.message"), claim.message or texts.plain("none")),
        ),
        warning=texts.plain("claims.warning" if verdict == "confirm" else "claims.reject.warning"),
    )


async def decide(console_request: ConsoleRequest) -> PlainResponse:
    """Confirm or reject a claim."""
    form = console_request.form
    request = held_pb2.DecideDepositClaimRequest(
        payment_id=console_request.get_path_variable("payment_id"), claim_id=form.text("claim")
    )
    name = parse_choice(form.text("verdict"), VERDICTS, "verdict")
    return await payment.call_and_redirect(console_request, name, request)
