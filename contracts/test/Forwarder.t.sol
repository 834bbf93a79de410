// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Errand, PayForwarder, Vault} from "../src/PayForwarder.sol";
import {Addresses} from "./support/Addresses.sol";
import {Cheats, cheats} from "./support/Cheats.sol";
import {CoinReceiver, Exchange, MisbehavingToken, MisbehavingTwin} from "./support/Misbehaving.sol";

/// @notice Single payments to addresses: amounts, times, tokens, chains, attackers and batches.
contract Forwarder is Addresses {
    address private constant STRANGER = address(0xbad);
    MisbehavingToken private odd;

    function setUp() public {
        _deploy();
        odd = new MisbehavingToken();
    }

    // ---- helpers

    function _give(address token, address to, uint256 amount) private {
        if (token == COIN) {
            cheats.deal(address(this), amount);
            (bool ok,) = to.call{value: amount, gas: 2300}("");
            require(ok, "coin was refused");
        } else {
            MisbehavingToken(token).mint(to, amount);
        }
    }

    function _paid(address token) private returns (PayForwarder.Route memory r) {
        r = _route(token);
        _give(token, forwarder.addressOf(r), r.value);
    }

    /// @dev Zero, or the selector of the error.
    function _forward(PayForwarder.Route memory r) private returns (bytes4) {
        return _call(abi.encodeCall(PayForwarder.forwardOne, (_item(r))));
    }

    function _sweep(PayForwarder.Route memory r, address asset) private returns (bytes4) {
        return _call(abi.encodeCall(PayForwarder.sweepOne, (r, _only(asset))));
    }

    function _call(bytes memory call) private returns (bytes4) {
        cheats.prank(STRANGER);
        (bool ok, bytes memory reason) = address(forwarder).call(call);
        return ok ? bytes4(0) : bytes4(reason);
    }

    function _is(bytes4 outcome, bytes4 expected) private pure {
        require(outcome == expected, "another outcome");
    }

    function _holds(
        PayForwarder.Route memory r,
        uint256 merchant,
        uint256 operator,
        uint256 home,
        uint256 place
    ) private view {
        require(_held(r.token, MERCHANT) == merchant, "merchant");
        require(_held(r.token, OPERATOR) == operator, "operator");
        require(_held(r.token, HOME) == home, "home");
        require(_held(r.token, forwarder.addressOf(r)) == place, "address");
    }

    // ---- amounts and times

    function _checkExact(address token) private {
        PayForwarder.Route memory r = _paid(token);
        cheats.recordLogs();
        _is(_forward(r), 0);
        _holds(r, SHARE, FEE, 0, 0);
        Cheats.Log[] memory logs = cheats.getRecordedLogs();
        Cheats.Log memory last = logs[logs.length - 1];
        require(last.emitter == address(forwarder) && last.topics[0] == PayForwarder.Paid.selector);
        require(last.topics[1] == r.ref);
        require(address(uint160(uint256(last.topics[2]))) == forwarder.addressOf(r));
        require(address(uint160(uint256(last.topics[3]))) == MERCHANT);
        bytes memory data = abi.encode(token, VALUE, OPERATOR, FEE, forwarder.routeNonce(r));
        require(keccak256(last.data) == keccak256(data), "another event");
        _is(_forward(r), PayForwarder.RouteClosed.selector);
    }

    function test_exactTokenIsForwardedOnce() public {
        _checkExact(address(dollar));
    }

    function test_exactTokenWithoutAnswersIsForwardedOnce() public {
        _checkExact(address(euro));
    }

    function test_exactCoinIsForwardedOnce() public {
        _checkExact(COIN);
    }

    function test_partsAddUpAndExcessGoesHome() public {
        PayForwarder.Route memory r = _route(address(dollar));
        address place = forwarder.addressOf(r);
        _give(address(dollar), place, 400_000);
        _is(_forward(r), PayForwarder.TooLittle.selector);
        require(place.code.length == 0, "a refused payment left code");
        _give(address(dollar), place, 599_999);
        _is(_forward(r), PayForwarder.TooLittle.selector);
        _give(address(dollar), place, 2_000_001);
        _is(_forward(r), 0);
        _holds(r, SHARE, FEE, 0, 2_000_000);
        _is(_sweep(r, address(dollar)), 0);
        _holds(r, SHARE, FEE, 2_000_000, 0);
    }

    function test_lastSecondCountsAndTheEndDoesNot() public {
        PayForwarder.Route memory r = _paid(address(dollar));
        cheats.warp(END);
        _is(_forward(r), PayForwarder.TooLate.selector);
        cheats.warp(END - 1);
        _is(_sweep(r, address(dollar)), PayForwarder.TooEarly.selector);
        _is(_forward(r), 0);
    }

    function test_lateMoneyGoesHomeEachTime() public {
        PayForwarder.Route memory r = _route(address(dollar));
        cheats.warp(END);
        for (uint256 i = 1; i < 4; ++i) {
            _give(address(dollar), forwarder.addressOf(r), VALUE);
            _is(_forward(r), PayForwarder.TooLate.selector);
            _is(_sweep(r, address(dollar)), 0);
            _holds(r, 0, 0, i * VALUE, 0);
        }
        _is(_sweep(r, address(dollar)), PayForwarder.NothingThere.selector);
    }

    function test_lateCoinGoesHome() public {
        cheats.warp(END + 1);
        PayForwarder.Route memory r = _paid(COIN);
        _is(_sweep(r, COIN), 0);
        _holds(r, 0, 0, VALUE, 0);
    }

    function test_secondPaymentInTimeGoesHome() public {
        PayForwarder.Route memory r = _paid(address(dollar));
        _is(_forward(r), 0);
        _give(address(dollar), forwarder.addressOf(r), VALUE);
        _is(_forward(r), PayForwarder.RouteClosed.selector);
        _is(_sweep(r, address(dollar)), 0);
        _holds(r, SHARE, FEE, VALUE, 0);
    }

    function test_routeWithoutFeePaysTheMerchantAlone() public {
        PayForwarder.Route memory r = _route(address(dollar));
        (r.fee, r.feeTo) = (0, address(0));
        _give(address(dollar), forwarder.addressOf(r), VALUE);
        _is(_forward(r), 0);
        _holds(r, VALUE, 0, 0, 0);
    }

    // ---- other assets

    function test_wrongAssetsGoHomeAtOnceAndTheRouteStaysOpen() public {
        PayForwarder.Route memory r = _route(address(dollar));
        address place = forwarder.addressOf(r);
        _give(address(euro), place, 5);
        _give(COIN, place, 6);
        _is(_sweep(r, address(euro)), 0);
        require(forwarder.staysOpen(forwarder.routeNonce(r)), "closed");
        _is(_sweep(r, COIN), 0);
        _is(_sweep(r, address(euro)), PayForwarder.NothingThere.selector);
        _give(address(dollar), place, VALUE);
        _is(_sweep(r, address(dollar)), PayForwarder.TooEarly.selector);
        _is(_forward(r), 0);
        _holds(r, SHARE, FEE, 0, 0);
        require(euro.balanceOf(HOME) == 5 && HOME.balance == 6, "home");
        require(!forwarder.staysOpen(forwarder.routeNonce(r)), "open");
        _give(address(dollar), place, VALUE);
        _is(_forward(r), PayForwarder.RouteClosed.selector);
    }

    function test_nothingLeavesACoinRouteBeforeItsEnd() public {
        PayForwarder.Route memory r = _route(COIN);
        _give(address(euro), forwarder.addressOf(r), 5);
        _is(_sweep(r, address(euro)), PayForwarder.TooEarly.selector);
        _give(COIN, forwarder.addressOf(r), VALUE);
        _is(_sweep(r, COIN), PayForwarder.TooEarly.selector);
        _is(_forward(r), 0);
        _is(_sweep(r, address(euro)), 0);
    }

    function test_secondEntryOfATokenSendsNothingHomeBeforeTheEnd() public {
        MisbehavingTwin twin = new MisbehavingTwin();
        PayForwarder.Route memory r = _paid(address(twin));
        _is(_sweep(r, address(twin.second())), PayForwarder.TooEarly.selector);
        _is(_forward(r), 0);
        _holds(r, SHARE, FEE, 0, 0);
    }

    function test_coinOfExchangesIsAcceptedUntilThePaymentAndRefusedAfterIt() public {
        PayForwarder.Route memory r = _route(COIN);
        address place = forwarder.addressOf(r);
        Exchange exchange = new Exchange();
        cheats.deal(address(exchange), 2 * VALUE);
        exchange.withdraw(payable(place), 600_000);
        exchange.withdraw(payable(place), 400_000);
        _is(_forward(r), 0);
        try exchange.withdraw(payable(place), 1) {
            revert("accepted");
        } catch {}
        (bool ok,) = place.call{value: 1}("");
        require(!ok, "accepted");
        // coin of a block's reward asks no code
        cheats.deal(place, 77);
        _is(_sweep(r, COIN), 0);
        _holds(r, SHARE, FEE, 77, 0);
    }

    // ---- other chains

    function test_moneyOnAWrongChainGoesHomeThere() public {
        PayForwarder.Route memory r = _route(address(dollar));
        address place = forwarder.addressOf(r);
        uint256 chain = block.chainid;
        cheats.chainId(chain + 1);
        require(forwarder.addressOf(r) == place, "another address on another chain");
        require(forwarder.addressOf(_route(address(dollar))) != place, "the chain is not in the salt");
        _give(address(dollar), place, VALUE);
        _is(_forward(r), PayForwarder.WrongChain.selector);
        _is(_sweep(r, address(dollar)), 0);
        _holds(r, 0, 0, VALUE, 0);
        cheats.chainId(chain);
    }

    function test_coinOfARouteOfAnotherChainGoesHome() public {
        PayForwarder.Route memory r = _route(COIN);
        r.chainId += 1;
        _give(COIN, forwarder.addressOf(r), VALUE);
        _is(_sweep(r, COIN), 0);
        require(HOME.balance == VALUE, "home");
    }

    // ---- tokens that misbehave

    function _refused(MisbehavingToken.Way way, bytes4 expected) private {
        PayForwarder.Route memory r = _paid(address(odd));
        odd.turn(way);
        _is(_forward(r), expected);
        odd.turn(MisbehavingToken.Way.None);
        require(forwarder.addressOf(r).code.length == 0, "a refused payment left code");
        _is(_forward(r), 0);
        _holds(r, SHARE, FEE, 0, 0);
    }

    function test_tokenThatTakesAFeeIsRefused() public {
        _refused(MisbehavingToken.Way.TakesFee, PayForwarder.Shortened.selector);
    }

    function test_tokenThatTakesAFeeGoesHomeShortened() public {
        PayForwarder.Route memory r = _paid(address(odd));
        odd.turn(MisbehavingToken.Way.TakesFee);
        cheats.warp(END);
        _is(_sweep(r, address(odd)), 0);
        require(odd.balanceOf(HOME) == 990_000, "home");
    }

    function test_tokenThatSaysNoIsRefused() public {
        _refused(MisbehavingToken.Way.SaysNo, Vault.TransferFailed.selector);
    }

    function test_tokenThatAnswersAnotherNumberIsRefused() public {
        _refused(MisbehavingToken.Way.SaysTwo, Vault.TransferFailed.selector);
    }

    function test_tokenThatAnswersOneByteIsRefused() public {
        _refused(MisbehavingToken.Way.SaysOneByte, Vault.TransferFailed.selector);
    }

    function test_tokenThatMovesNothingIsRefused() public {
        _refused(MisbehavingToken.Way.MovesNothing, PayForwarder.Shortened.selector);
    }

    function test_tokenThatReturnsNoBalanceIsRefused() public {
        _refused(MisbehavingToken.Way.ReturnsNoBalance, PayForwarder.TooLittle.selector);
    }

    function test_tokenThatClaimsEverythingPaysForNothing() public {
        PayForwarder.Route memory r = _route(address(odd));
        odd.turn(MisbehavingToken.Way.ClaimsEverything);
        require(_forward(r) != 0, "forwarded");
        require(forwarder.addressOf(r).code.length == 0, "closed");
    }

    function test_addressWithoutCodeIsNoToken() public {
        PayForwarder.Route memory r = _route(address(0xdead));
        _is(_forward(r), PayForwarder.TooLittle.selector);
        (r.value, r.fee) = (0, 0);
        _is(_forward(r), Vault.TransferFailed.selector);
    }

    function test_frozenAndPausedMoneyWaits() public {
        PayForwarder.Route memory r = _paid(address(dollar));
        dollar.blacklist(MERCHANT);
        _is(_forward(r), Vault.TransferFailed.selector);
        dollar.unBlacklist(MERCHANT);
        dollar.blacklist(forwarder.addressOf(r));
        _is(_forward(r), Vault.TransferFailed.selector);
        dollar.unBlacklist(forwarder.addressOf(r));
        dollar.pause();
        _is(_forward(r), Vault.TransferFailed.selector);
        dollar.unpause();
        dollar.blacklist(HOME);
        cheats.warp(END);
        _is(_sweep(r, address(dollar)), Vault.TransferFailed.selector);
        dollar.unBlacklist(HOME);
        _is(_sweep(r, address(dollar)), 0);
        _holds(r, 0, 0, VALUE, 0);
    }

    // ---- calls from within

    function _checkEntryByToken(bytes memory call) private {
        PayForwarder.Route memory r = _paid(address(odd));
        odd.turnToCall(address(forwarder), call);
        _is(_forward(r), 0);
        require(!odd.hasReentered(), "entered from within");
        _holds(r, SHARE, FEE, 0, 0);
    }

    function test_tokenCannotForwardFromWithin() public {
        PayForwarder.Route memory other = _route(address(dollar), 8);
        _give(address(dollar), forwarder.addressOf(other), VALUE);
        _checkEntryByToken(abi.encodeCall(PayForwarder.forwardOne, (_item(other))));
        require(dollar.balanceOf(MERCHANT) == 0, "forwarded");
    }

    function test_tokenCannotSweepFromWithin() public {
        PayForwarder.Route memory r = _route(address(odd));
        _checkEntryByToken(abi.encodeCall(PayForwarder.sweepOne, (r, _only(address(odd)))));
    }

    function test_receiverOfCoinCannotSweepFromWithin() public {
        CoinReceiver receiver = new CoinReceiver();
        PayForwarder.Route memory r = _route(COIN);
        r.dest = address(receiver);
        receiver.turnToCall(
            address(forwarder), abi.encodeCall(PayForwarder.sweepOne, (r, _only(COIN)))
        );
        _give(COIN, forwarder.addressOf(r), 2 * VALUE);
        _is(_forward(r), 0);
        require(!receiver.hasReentered() && address(receiver).balance == SHARE, "receiver");
        _is(_sweep(r, COIN), 0);
        require(HOME.balance == VALUE && OPERATOR.balance == FEE, "home");
    }

    function test_coinThatTheMerchantRefusesGoesHome() public {
        CoinReceiver receiver = new CoinReceiver();
        receiver.refuse();
        PayForwarder.Route memory r = _route(COIN);
        r.dest = address(receiver);
        _give(COIN, forwarder.addressOf(r), VALUE);
        _is(_forward(r), Vault.TransferFailed.selector);
        cheats.warp(END);
        _is(_sweep(r, COIN), 0);
        require(HOME.balance == VALUE, "home");
    }

    // ---- strangers

    function test_vaultsObeyTheForwarderAlone() public {
        PayForwarder.Route memory r = _paid(address(dollar));
        address place = forwarder.addressOf(r);
        _give(address(dollar), place, VALUE);
        _is(_forward(r), 0);
        bytes[2] memory calls = [
            abi.encodeCall(Vault.send, (address(dollar), STRANGER, 1)),
            abi.encodeCall(Vault.pay, (address(dollar), STRANGER, 1, STRANGER, 0))
        ];
        for (uint256 i = 0; i < 2; ++i) {
            cheats.prank(STRANGER);
            (bool ok,) = place.call(calls[i]);
            require(!ok, "a vault obeyed a stranger");
            (ok,) = forwarder.vault().call(calls[i]);
            require(!ok, "the vault's own code obeyed");
            // an errand has no right either, and the payment does not depend on it
            PayForwarder.Route memory other = _route(address(dollar), 8 + i);
            _give(address(dollar), forwarder.addressOf(other), VALUE);
            forwarder.forwardOne(PayForwarder.Forwarding(other, place, calls[i], 0));
        }
        require(dollar.balanceOf(STRANGER) == 0, "taken");
        require(dollar.balanceOf(place) == VALUE, "the address lost money");
    }

    function test_errandCannotCallTheForwarder() public {
        PayForwarder.Route memory r = _paid(address(dollar));
        _give(address(dollar), forwarder.addressOf(r), VALUE);
        _is(_forward(r), 0);
        PayForwarder.Route memory other = _route(address(dollar), 8);
        _give(address(dollar), forwarder.addressOf(other), VALUE);
        bytes memory call = abi.encodeCall(PayForwarder.sweepOne, (r, _only(address(dollar))));
        forwarder.forwardOne(PayForwarder.Forwarding(other, address(forwarder), call, 0));
        require(dollar.balanceOf(forwarder.addressOf(r)) == VALUE, "swept from within");
    }

    function test_errandBringsTheMoney() public {
        PayForwarder.Route memory r = _route(address(odd));
        bytes memory call =
            abi.encodeCall(MisbehavingToken.mint, (forwarder.addressOf(r), VALUE));
        forwarder.forwardOne(PayForwarder.Forwarding(r, address(odd), call, 0));
        _holds(r, SHARE, FEE, 0, 0);
    }

    function test_errandFailsWithoutItsTargetsReason() public {
        odd.turn(MisbehavingToken.Way.RevertsWithAll);
        bytes memory call = abi.encodeCall(MisbehavingToken.transfer, (STRANGER, 0));
        Errand errand = Errand(forwarder.errand());
        try errand.run(address(odd), call) {
            revert("succeeded");
        } catch (bytes memory reason) {
            require(reason.length == 0, "a reason was copied");
        }
    }

    function test_anotherForwarderHasOtherAddresses() public {
        PayForwarder.Route memory r = _paid(address(dollar));
        PayForwarder other = new PayForwarder();
        require(other.addressOf(r) != forwarder.addressOf(r), "the forwarder is not in the salt");
        try other.forwardOne(_item(r)) {
            revert("forwarded");
        } catch {}
        _is(_forward(r), 0);
    }

    function test_routesThatCannotBePaidHaveNoAddress() public {
        for (uint256 i = 0; i < 13; ++i) {
            PayForwarder.Route memory r = _route(address(dollar));
            if (i == 0) r.dest = address(0);
            if (i == 1) r.feeTo = address(0);
            if (i == 2) r.home = address(0);
            if (i == 3) r.fee = r.value + 1;
            address end = i < 7
                ? address(forwarder)
                : i < 10 ? forwarder.vault() : forwarder.errand();
            if (i > 3 && i % 3 == 1) r.dest = end;
            if (i > 3 && i % 3 == 2) r.feeTo = end;
            if (i > 3 && i % 3 == 0) r.home = end;
            bytes4 expected = i < 3
                ? PayForwarder.RouteEndsNowhere.selector
                : i == 3
                    ? PayForwarder.FeeExceedsValue.selector
                    : PayForwarder.RouteEndsHere.selector;
            _is(_call(abi.encodeCall(PayForwarder.addressOf, (r))), expected);
            _is(_forward(r), expected);
            cheats.warp(END);
            bytes4 refusal = i == 2 || (i > 3 && i % 3 == 0)
                ? expected
                : PayForwarder.NothingThere.selector;
            _is(_sweep(r, address(dollar)), refusal);
            cheats.warp(START);
        }
    }

    // ---- batches

    function test_badItemOfABatchLeavesTheOthersAlone() public {
        PayForwarder.Forwarding[] memory items = new PayForwarder.Forwarding[](4);
        for (uint256 i = 0; i < 4; ++i) {
            address token = i == 1 ? address(odd) : address(dollar);
            items[i] = _item(_route(token, 100 + i));
            if (i != 2) _give(token, forwarder.addressOf(items[i].route), VALUE);
        }
        odd.turn(MisbehavingToken.Way.RevertsWithAll);
        cheats.recordLogs();
        require(forwarder.forward(items) == 9, "mask");
        Cheats.Log[] memory logs = cheats.getRecordedLogs();
        uint256 failures;
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].topics[0] != PayForwarder.Failed.selector) continue;
            ++failures;
            require(logs[i].data.length <= 64 + 256, "the whole reason was copied");
        }
        require(failures == 2, "failures");
        _holds(items[0].route, 2 * SHARE, 2 * FEE, 0, 0);
        odd.turn(MisbehavingToken.Way.BurnsGas);
        require(forwarder.forward(items) == 0, "paid again");
        odd.turn(MisbehavingToken.Way.None);
        require(forwarder.forward(items) == 2, "a failure closed a route");
    }

    function test_itemsBeginWithAllOfTheirGasOnly() public {
        PayForwarder.Forwarding[] memory items = new PayForwarder.Forwarding[](1);
        items[0] = _item(_paid(address(dollar)));
        bytes memory call = abi.encodeCall(PayForwarder.forward, (items));
        (bool ok, bytes memory reason) = address(forwarder).call{gas: ITEM_GAS}(call);
        require(!ok && bytes4(reason) == PayForwarder.NotEnoughGas.selector, "began");
        PayForwarder.Sweep[] memory sweeps = new PayForwarder.Sweep[](1);
        sweeps[0] = PayForwarder.Sweep(items[0].route, _only(address(dollar)), ITEM_GAS);
        call = abi.encodeCall(PayForwarder.sweep, (sweeps));
        (ok, reason) = address(forwarder).call{gas: ITEM_GAS}(call);
        require(!ok && bytes4(reason) == PayForwarder.NotEnoughGas.selector, "began");
    }

    function test_sweepsOfABatchAreSeparate() public {
        PayForwarder.Sweep[] memory items = new PayForwarder.Sweep[](3);
        address[] memory assets = new address[](2);
        (assets[0], assets[1]) = (address(dollar), address(euro));
        for (uint256 i = 0; i < 3; ++i) {
            items[i] = PayForwarder.Sweep(_route(address(dollar), i), assets, ITEM_GAS);
            if (i != 1) _give(address(dollar), forwarder.addressOf(items[i].route), 55);
        }
        _give(address(euro), forwarder.addressOf(items[2].route), 66);
        cheats.warp(END);
        require(forwarder.sweep(items) == 5, "mask");
        require(dollar.balanceOf(HOME) == 110 && euro.balanceOf(HOME) == 66, "home");
    }

    function test_batchesHaveAtMost256Items() public {
        (bool ok, bytes memory reason) = address(forwarder).call(
            abi.encodeCall(PayForwarder.forward, (new PayForwarder.Forwarding[](257)))
        );
        require(!ok && bytes4(reason) == PayForwarder.TooMany.selector, "forwarded");
        (ok, reason) = address(forwarder).call(
            abi.encodeCall(PayForwarder.sweep, (new PayForwarder.Sweep[](257)))
        );
        require(!ok && bytes4(reason) == PayForwarder.TooMany.selector, "swept");
    }
}
