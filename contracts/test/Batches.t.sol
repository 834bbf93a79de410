// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BatchToken} from "./support/BatchToken.sol";
import {PaySettler} from "../src/PaySettler.sol";
import {Cheats, cheats} from "./support/Cheats.sol";

/// @notice Payments of a batch move together if they can, and never stop or change each other.
contract Batches {
    uint256 private constant VALUE = 1_000;
    uint256 private constant FEE = 10;
    uint256 private constant ITEM_GAS = 250_000;
    address private constant MERCHANT = address(0x3e4c4a47);
    address private constant OTHER = address(0x07e4);
    address private constant OPERATOR = address(0x07e4a704);

    PaySettler private settler;
    BatchToken private token;

    function setUp() public {
        settler = new PaySettler();
        token = new BatchToken();
    }

    function test_sumsOfOneMerchantAreMovedOnce() public {
        require(settler.settle3009(_batch(5)) == 31, "not paid");
        require(token.moves() == 5 + 2, "moved one by one");
        _received(MERCHANT, 5);
    }

    function test_eventsNameEachPayment() public {
        cheats.recordLogs();
        settler.settle3009(_batch(3));
        Cheats.Log[] memory logs = cheats.getRecordedLogs();
        require(logs.length == 3, "events and payments differ");
        for (uint256 i = 0; i < 3; ++i) {
            require(logs[i].topics[0] == PaySettler.Paid.selector, "another event");
            require(logs[i].topics[1] == bytes32(i + 1), "another payment");
        }
    }

    function test_oneBadPaymentStopsNoOther() public {
        PaySettler.Pay[] memory payments = _batch(5);
        token.freeze(payments[1].from);
        payments[3].fee = VALUE + 1;
        require(settler.settle3009(payments) == 21, "another mask");
        _received(MERCHANT, 3);
        require(token.moves() == 3 + 2, "moved one by one");
    }

    function test_refusedSumIsPaidOneByOne() public {
        for (uint8 refusal = 0; refusal < 4; ++refusal) {
            setUp();
            token.limitTo(2 * VALUE, BatchToken.Refusal(refusal));
            PaySettler.Pay[] memory payments = _batch(6);
            payments[4].dest = payments[5].dest = OTHER;
            bytes memory callData = abi.encodeCall(settler.settle3009, (payments));
            (bool ok, bytes memory answer) = address(settler).call{gas: 4_000_000}(callData);
            require(ok && abi.decode(answer, (uint256)) == 63, "not paid");
            require(token.moves() == 4 * 3 + 2 + 2, "another way");
            require(token.balanceOf(MERCHANT) == 4 * (VALUE - FEE), "merchant");
            require(token.balanceOf(OTHER) == 2 * (VALUE - FEE), "other merchant");
            require(token.balanceOf(OPERATOR) == 6 * FEE, "fees");
            require(token.balanceOf(address(settler)) == 0, "left behind");
        }
    }

    function test_frozenMerchantStopsNoOther() public {
        PaySettler.Pay[] memory payments = _batch(6);
        payments[2].dest = payments[3].dest = OTHER;
        token.freeze(OTHER);
        require(settler.settle3009(payments) == 51, "another mask");
        _received(MERCHANT, 4);
    }

    function test_frozenFeeReceiverStopsOnlyPaymentsWithAFee() public {
        PaySettler.Pay[] memory payments = _batch(4);
        payments[1].fee = payments[2].fee = 0;
        token.freeze(OPERATOR);
        require(settler.settle3009(payments) == 6, "another mask");
        require(token.balanceOf(MERCHANT) == 2 * VALUE, "merchant");
        require(token.balanceOf(address(settler)) == 0, "left behind");
    }

    function test_paymentThatDeliversLessStopsNoOther() public {
        for (uint256 bad = 0; bad < 4; ++bad) {
            setUp();
            PaySettler.Pay[] memory payments = _batch(4);
            token.tax(payments[bad].from);
            require(settler.settle3009(payments) == 15 - (1 << bad), "another mask");
            _received(MERCHANT, 3);
        }
    }

    function test_paymentsOfOtherTokensAreApart() public {
        PaySettler.Pay[] memory payments = _batch(4);
        BatchToken second = new BatchToken();
        for (uint256 i = 2; i < 4; ++i) {
            payments[i].token = address(second);
            second.mint(payments[i].from, VALUE);
        }
        second.limitTo(0, BatchToken.Refusal.BurnsGas);
        require(settler.settle3009(payments) == 3, "another mask");
        _received(MERCHANT, 2);
        require(second.balanceOf(payments[2].from) == VALUE, "lost");
    }

    function test_noCallFromWithinMovesMoney() public {
        PaySettler.Pay[] memory payments = _batch(2);
        PaySettler.Pay memory p = payments[0];
        PaySettler.Kind kind = PaySettler.Kind.Eip3009;
        bytes[6] memory calls = [
            abi.encodeCall(settler.settle3009, (payments)),
            abi.encodeCall(settler.settle, (payments, payments)),
            abi.encodeCall(settler.one3009, (p)),
            abi.encodeCall(settler.take3009, (p)),
            abi.encodeCall(settler.takePermit2, (p)),
            abi.encodeCall(settler.settleTogether, (kind, payments))
        ];
        for (uint256 i = 0; i < calls.length; ++i) {
            setUp();
            payments = _batch(2);
            token.turnToCall(address(settler), calls[i]);
            require(settler.settle3009(payments) == 3, "not paid");
            require(!token.hasReentered(), "entered from within");
            _received(MERCHANT, 2);
        }
    }

    /// @notice Money that was taken and not paid out would be another caller's.
    function test_onlyTheContractTakesWithoutPayingOut() public {
        PaySettler.Pay[] memory payments = _batch(2);
        try settler.take3009(payments[0]) {
            revert("taken");
        } catch {}
        try settler.takePermit2(payments[0]) {
            revert("taken");
        } catch {}
        try settler.settleTogether(PaySettler.Kind.Eip3009, payments) {
            revert("taken");
        } catch {}
    }

    /// @notice With less gas the result is the same, or nothing happens.
    function testFuzz_lessGasMakesNoDifference(uint256 gas, uint8 refusal) public {
        token.limitTo(2 * VALUE, BatchToken.Refusal(refusal % 4));
        if (refusal > 127) token.limitTo(type(uint256).max, BatchToken.Refusal.Reverts);
        PaySettler.Pay[] memory payments = _batch(4);
        bytes memory call = abi.encodeCall(settler.settle3009, (payments));
        (bool ok, bytes memory answer) = address(settler).call{gas: 100_000 + gas % 2_500_000}(call);
        if (ok) {
            require(abi.decode(answer, (uint256)) == 15, "less gas made a difference");
            _received(MERCHANT, 4);
        } else {
            require(token.moves() == 0, "moved");
        }
    }

    /// @notice So that a submitter with little gas makes no payment fail.
    function test_heavyPaymentGetsAllOfItsGas() public {
        for (uint256 gas = 500_000; gas < 2_000_000; gas += 50_000) {
            setUp();
            token.slowDown(1_000_000);
            PaySettler.Pay[] memory payments = _batch(1);
            payments[0].gas = 1_200_000;
            bytes memory callData = abi.encodeCall(settler.settle3009, (payments));
            (bool ok, bytes memory answer) = address(settler).call{gas: gas}(callData);
            require(!ok || abi.decode(answer, (uint256)) == 1, "less gas made a difference");
        }
    }

    /// @notice A batch moves exactly the payments that would move alone.
    function testFuzz_batchEqualsItsPaymentsAlone(uint256 seed) public {
        PaySettler other = new PaySettler();
        BatchToken twin = new BatchToken();
        PaySettler.Pay[] memory payments = _batch(8);
        address[3] memory ends = [MERCHANT, OTHER, OPERATOR];
        for (uint256 i = 0; i < 8; ++i) {
            PaySettler.Pay memory p = payments[i];
            twin.mint(p.from, VALUE);
            uint256 chance = uint256(keccak256(abi.encode(seed, i)));
            p.dest = ends[chance % 2];
            p.feeTo = ends[(chance >> 8) % 2 + 1];
            p.value = VALUE - 3 + (chance >> 16) % 4;
            p.fee = (chance >> 24) % 4 == 0 ? 0 : (chance >> 32) % (VALUE + 2);
            if ((chance >> 40) % 8 == 0) (p.dest, p.feeTo) = (address(settler), p.dest);
            if ((chance >> 48) % 8 == 0) p.value += 10;
        }
        address frozen = seed % 4 == 0 ? ends[(seed >> 8) % 3] : payments[seed % 8].from;
        token.freeze(frozen);
        twin.freeze(frozen);
        uint256 mask = settler.settle3009(payments);
        for (uint256 i = 0; i < 8; ++i) {
            PaySettler.Pay memory p = payments[i];
            p.token = address(twin);
            if (p.dest == address(settler)) p.dest = address(other);
            try other.one3009(p) {
                require(mask >> i & 1 == 1, "stopped");
            } catch {
                require(mask >> i & 1 == 0, "moved");
            }
            require(token.balanceOf(p.from) == twin.balanceOf(p.from), "a buyer's balance");
        }
        for (uint256 i = 0; i < 3; ++i) {
            require(token.balanceOf(ends[i]) == twin.balanceOf(ends[i]), "a receiver's balance");
        }
        require(token.balanceOf(address(settler)) == 0, "left behind");
    }

    /// @notice Payments that were encoded in another order move one by one.
    function test_anyOrderOfTheEncodingIsAccepted() public {
        PaySettler.Pay[] memory payments = _batch(2);
        bytes memory callData = abi.encodeCall(settler.settle3009, (payments));
        assembly {
            // the offsets of both: selector, offset and length of the list come before
            let first := add(callData, 100)
            let swapped := mload(first)
            mstore(first, mload(add(first, 32)))
            mstore(add(first, 32), swapped)
        }
        (bool ok, bytes memory answer) = address(settler).call(callData);
        require(ok && abi.decode(answer, (uint256)) == 3, "not paid");
        _received(MERCHANT, 2);
    }

    function _received(address merchant, uint256 count) private view {
        require(token.balanceOf(merchant) == count * (VALUE - FEE), "merchant");
        require(token.balanceOf(OPERATOR) == count * FEE, "fees");
        require(token.balanceOf(address(settler)) == 0, "left behind");
    }

    /// @dev Payments of different buyers to one merchant; each buyer has the money for its own.
    function _batch(uint256 count) private returns (PaySettler.Pay[] memory payments) {
        payments = new PaySettler.Pay[](count);
        for (uint256 i = 0; i < count; ++i) {
            address buyer = address(uint160(0xb0b0 + i));
            token.mint(buyer, VALUE);
            payments[i] = PaySettler.Pay({
                token: address(token),
                from: buyer,
                value: VALUE,
                validAfter: 0,
                validBefore: block.timestamp + 900,
                dest: MERCHANT,
                feeTo: OPERATOR,
                fee: FEE,
                ref: bytes32(i + 1),
                gas: ITEM_GAS,
                sig: ""
            });
        }
    }
}
