// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PaySettler} from "../src/PaySettler.sol";
import {PlainToken} from "./support/PlainToken.sol";

/// @notice Properties of one payment with any values: halmos proves them for all, and forge
/// tests them on many.
contract Items {
    uint256 private constant MOST = 1 << 120;

    PaySettler private settler;
    PlainToken private token;
    address private constant BUYER = address(0xb0b);
    address private constant MERCHANT = address(0x3e4c);
    address private constant OPERATOR = address(0x07e4);

    struct Held {
        uint256 buyer;
        uint256 merchant;
        uint256 operator;
        uint256 settler;
    }

    function setUp() public {
        settler = new PaySettler();
        token = new PlainToken();
        token.mint(BUYER, MOST);
    }

    /// @notice By signature: merchant and fee receiver get exactly their shares from the buyer,
    /// and the settlement contract keeps nothing; or nothing moves.
    function check_signedPaymentIsExact(uint256 value, uint256 fee, bytes32 ref, uint256 end)
        public
    {
        Held memory before = _held();
        PaySettler.Pay memory p = _pay(value, fee, ref, end);
        try settler.one3009(p) {
            _moved(before, value, fee);
        } catch {
            _moved(before, 0, 0);
            // it fails only for a lack of money or for its fee
            assert(value > before.buyer || fee > value);
        }
    }

    /// @notice Directly: merchant and fee receiver get exactly their shares, or nothing moves.
    function check_directPaymentIsExact(uint256 value, uint256 fee, bytes32 ref, uint256 end)
        public
    {
        Held memory before = _held();
        PaySettler.Pay memory p = _pay(value, fee, ref, end);
        p.from = address(this);
        token.mint(address(this), MOST);
        try settler.pay(p) {
            assert(block.timestamp < end);
            assert(token.balanceOf(address(this)) == MOST - value);
            assert(token.balanceOf(MERCHANT) == before.merchant + value - fee);
            assert(token.balanceOf(OPERATOR) == before.operator + fee);
            assert(token.balanceOf(address(settler)) == 0);
        } catch {
            assert(token.balanceOf(address(this)) == MOST);
            assert(value > MOST || fee > value || block.timestamp >= end);
        }
    }

    /// @notice A direct payment is made once.
    function check_directPaymentIsMadeOnce(uint256 value, uint256 fee, bytes32 ref, uint256 end)
        public
    {
        PaySettler.Pay memory p = _pay(value, fee, ref, end);
        p.from = address(this);
        token.mint(address(this), MOST);
        try settler.pay(p) {}
        catch {
            return;
        }
        try settler.pay(p) {
            assert(false);
        } catch {}
    }

    /// @notice No sender pays for another account without a signature.
    function check_onlyTheBuyerPaysDirectly(address from, uint256 value, bytes32 ref) public {
        PaySettler.Pay memory p = _pay(value, 0, ref, type(uint256).max);
        p.from = from;
        try settler.pay(p) {
            assert(from == address(this));
        } catch {}
    }

    /// @notice No payment goes to the settlement contract or to the zero address.
    function check_noRouteEndsHereOrNowhere(address dest, address feeTo, uint256 value, uint256 fee)
        public
    {
        PaySettler.Pay memory p = _pay(value, fee, bytes32(0), type(uint256).max);
        p.dest = dest;
        p.feeTo = feeTo;
        try settler.one3009(p) {
            assert(dest != address(settler) && feeTo != address(settler));
            assert(dest != address(0) && (fee == 0 || feeTo != address(0)));
        } catch {}
    }

    /// @notice The bit of a batch of one reports whether the money moved. The batch never reverts
    /// because of the payment.
    function check_aBatchTellsTheTruth(uint256 value, uint256 fee, bytes32 ref, uint256 end)
        public
    {
        Held memory before = _held();
        PaySettler.Pay[] memory payments = new PaySettler.Pay[](1);
        payments[0] = _pay(value, fee, ref, end);
        uint256 mask = settler.settle3009(payments);
        assert(mask < 2);
        if (mask == 1) _moved(before, value, fee);
        else _moved(before, 0, 0);
    }

    /// @notice Of two payments that move together, each moves exactly or not at all, and the bits
    /// of the batch report which.
    function check_twoTogetherAreExact(uint256 one, uint256 oneFee, uint256 two, uint256 twoFee)
        public
    {
        Held memory before = _held();
        PaySettler.Pay[] memory payments = new PaySettler.Pay[](2);
        payments[0] = _pay(one, oneFee, bytes32(uint256(1)), type(uint256).max);
        payments[1] = _pay(two, twoFee, bytes32(uint256(2)), type(uint256).max);
        uint256 mask = settler.settle3009(payments);
        assert(mask < 4);
        if (mask & 1 == 0) (one, oneFee) = (0, 0);
        if (mask & 2 == 0) (two, twoFee) = (0, 0);
        _moved(before, one + two, oneFee + twoFee);
    }

    function testFuzz_signedPaymentIsExact(uint256 value, uint256 fee, bytes32 ref, uint256 end)
        public
    {
        check_signedPaymentIsExact(value % (2 * MOST), fee % (2 * MOST), ref, end);
    }

    function testFuzz_twoTogetherAreExact(uint256 one, uint256 oneFee, uint256 two, uint256 twoFee)
        public
    {
        check_twoTogetherAreExact(one % MOST, oneFee % MOST, two % MOST, twoFee % MOST);
    }

    function testFuzz_directPaymentIsExact(uint256 value, uint256 fee, bytes32 ref, uint256 end)
        public
    {
        check_directPaymentIsExact(value % (2 * MOST), fee % (2 * MOST), ref, end);
    }

    function testFuzz_nonceCoversThePayment(
        PaySettler.Pay memory one,
        PaySettler.Pay memory other,
        bool sameKind
    ) public view {
        PaySettler.Kind kind = PaySettler.Kind.Eip3009;
        PaySettler.Kind second = sameKind ? kind : PaySettler.Kind.Direct;
        bool equal = sameKind && one.token == other.token && one.value == other.value
            && one.validBefore == other.validBefore && one.dest == other.dest
            && one.feeTo == other.feeTo && one.fee == other.fee && one.ref == other.ref;
        assert((settler.routeNonce(kind, one) == settler.routeNonce(second, other)) == equal);
    }

    function _pay(uint256 value, uint256 fee, bytes32 ref, uint256 end)
        private
        view
        returns (PaySettler.Pay memory)
    {
        return PaySettler.Pay({
            token: address(token),
            from: BUYER,
            value: value,
            validAfter: 0,
            validBefore: end,
            dest: MERCHANT,
            feeTo: OPERATOR,
            fee: fee,
            ref: ref,
            gas: 300_000,
            sig: ""
        });
    }

    function _held() private view returns (Held memory) {
        return Held(
            token.balanceOf(BUYER),
            token.balanceOf(MERCHANT),
            token.balanceOf(OPERATOR),
            token.balanceOf(address(settler))
        );
    }

    function _moved(Held memory before, uint256 value, uint256 fee) private view {
        assert(token.balanceOf(BUYER) == before.buyer - value);
        assert(token.balanceOf(MERCHANT) == before.merchant + value - fee);
        assert(token.balanceOf(OPERATOR) == before.operator + fee);
        assert(token.balanceOf(address(settler)) == before.settler);
    }
}
