// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PayForwarder, Vault} from "../src/PayForwarder.sol";
import {cheats} from "./support/Cheats.sol";
import {PlainToken} from "./support/PlainToken.sol";

/// @notice Properties of one route with any values: halmos proves them for all, and forge tests
/// them on many.
contract ForwardItems {
    uint256 private constant MOST = 1 << 120;

    PayForwarder private forwarder;
    PlainToken private token;
    address private constant FORWARDER = address(0xf0a4);
    address private constant MERCHANT = address(0x3e4c);
    address private constant OPERATOR = address(0x07e4);
    address private constant HOME = address(0x403e);

    /// @dev halmos gives new contracts addresses of its own, which the constructor would refuse.
    function setUp() public {
        forwarder = PayForwarder(FORWARDER);
        cheats.etch(FORWARDER, type(PayForwarder).runtimeCode);
        cheats.prank(FORWARDER);
        Vault vault = new Vault();
        cheats.etch(forwarder.vault(), address(vault).code);
        token = new PlainToken();
    }

    /// @notice Two routes have the same salt if they are the same, and only then.
    function check_saltCoversTheRoute(
        PayForwarder.Route memory one,
        PayForwarder.Route memory other
    ) public view {
        bool equal = one.chainId == other.chainId && one.token == other.token
            && one.value == other.value && one.validBefore == other.validBefore
            && one.dest == other.dest && one.feeTo == other.feeTo && one.fee == other.fee
            && one.ref == other.ref && one.home == other.home;
        assert((forwarder.routeNonce(one) == forwarder.routeNonce(other)) == equal);
    }

    /// @notice The first way out: merchant and fee receiver get exactly their shares, and the rest
    /// stays; or nothing moves.
    function check_forwardedPaymentIsExact(
        uint256 value,
        uint256 fee,
        uint256 end,
        uint256 chain,
        uint256 paid
    ) public {
        // a constant, as halmos names an address by the terms of its hash
        if (chain == block.chainid) chain = block.chainid;
        PayForwarder.Route memory r = _route(value, fee, end, chain);
        if (paid > MOST) return;
        address place = _pay(r, paid);
        if (place == address(0)) return;
        try forwarder.forwardOne(PayForwarder.Forwarding(r, address(0), "", 0)) {
            assert(chain == block.chainid && block.timestamp < end && paid >= value);
            _holds(place, value - fee, fee, 0, paid - value);
        } catch {
            _holds(place, 0, 0, 0, paid);
            assert(chain != block.chainid || block.timestamp >= end || paid < value);
        }
    }

    /// @notice The second way out: everything goes home once the route cannot be paid, and nothing
    /// before.
    function check_moneyGoesHomeOnlyAfterTheEnd(uint256 end, uint256 chain, uint256 paid) public {
        PayForwarder.Route memory r = _route(1_000, 10, end, chain);
        if (paid > MOST) return;
        address place = _pay(r, paid);
        if (_sweep(r)) {
            assert(chain != block.chainid || block.timestamp >= end);
            _holds(place, 0, 0, paid, 0);
        } else {
            _holds(place, 0, 0, 0, paid);
            assert(paid == 0 || (chain == block.chainid && block.timestamp < end));
        }
    }

    /// @notice After a payment no second one moves, and the rest goes home before the end too.
    function check_routeIsPaidOnce(uint256 fee, uint256 first, uint256 second) public {
        PayForwarder.Route memory r = _route(1_000, fee, type(uint256).max, block.chainid);
        if (fee > 1_000 || first < 1_000 || first > MOST || second > MOST) return;
        address place = _pay(r, first);
        forwarder.forwardOne(PayForwarder.Forwarding(r, address(0), "", 0));
        token.mint(place, second);
        try forwarder.forwardOne(PayForwarder.Forwarding(r, address(0), "", 0)) {
            assert(false);
        } catch {}
        uint256 rest = first - 1_000 + second;
        assert(_sweep(r) == (rest > 0));
        _holds(place, 1_000 - fee, fee, rest, 0);
    }

    /// @notice No account but the forwarder moves what an address with code holds.
    function check_vaultObeysTheForwarderAlone(address to, uint256 amount, bool pays) public {
        PayForwarder.Route memory r = _route(1_000, 10, type(uint256).max, block.chainid);
        address place = _pay(r, 5_000);
        forwarder.forwardOne(PayForwarder.Forwarding(r, address(0), "", 0));
        bytes memory call = pays
            ? abi.encodeCall(Vault.pay, (address(token), to, amount, to, 0))
            : abi.encodeCall(Vault.send, (address(token), to, amount));
        (bool ok,) = place.call(call);
        assert(!ok);
        _holds(place, 990, 10, 0, 4_000);
    }

    function testFuzz_forwardedPaymentIsExact(
        uint256 value,
        uint256 fee,
        uint256 end,
        bool isHere,
        uint256 paid
    ) public {
        uint256 chain = isHere ? block.chainid : block.chainid + 1;
        check_forwardedPaymentIsExact(value % MOST, fee % MOST, end, chain, paid % (2 * MOST));
    }

    function testFuzz_moneyGoesHomeOnlyAfterTheEnd(uint256 end, bool isHere, uint256 paid) public {
        uint256 chain = isHere ? block.chainid : block.chainid + 1;
        check_moneyGoesHomeOnlyAfterTheEnd(end % (2 * block.timestamp), chain, paid % MOST);
    }

    function testFuzz_saltCoversTheRoute(PayForwarder.Route memory r, uint8 field, uint256 other)
        public
        view
    {
        PayForwarder.Route memory changed = abi.decode(abi.encode(r), (PayForwarder.Route));
        address account = address(uint160(other));
        field %= 9;
        if (field == 0) changed.chainId = other;
        if (field == 1) changed.token = account;
        if (field == 2) changed.value = other;
        if (field == 3) changed.validBefore = other;
        if (field == 4) changed.dest = account;
        if (field == 5) changed.feeTo = account;
        if (field == 6) changed.fee = other;
        if (field == 7) changed.ref = bytes32(other);
        if (field == 8) changed.home = account;
        check_saltCoversTheRoute(r, changed);
    }

    /// @notice The address is that of CREATE2 with a minimal proxy (ERC-1167) of the vault.
    function testFuzz_addressFollowsFromTheRoute(PayForwarder.Route memory r) public view {
        r.fee = r.value == 0 ? 0 : r.fee % r.value;
        try forwarder.addressOf(r) {}
        catch {
            return;
        }
        bytes memory proxy = abi.encodePacked(
            hex"3d602d80600a3d3981f3363d3d373d3d3d363d73",
            forwarder.vault(),
            hex"5af43d82803e903d91602b57fd5bf3"
        );
        bytes32 hash = keccak256(
            abi.encodePacked(
                hex"ff", address(forwarder), forwarder.routeNonce(r), keccak256(proxy)
            )
        );
        assert(forwarder.addressOf(r) == address(uint160(uint256(hash))));
    }

    function _route(uint256 value, uint256 fee, uint256 end, uint256 chain)
        private
        view
        returns (PayForwarder.Route memory)
    {
        return PayForwarder.Route({
            chainId: chain,
            token: address(token),
            value: value,
            validBefore: end,
            dest: MERCHANT,
            feeTo: OPERATOR,
            fee: fee,
            ref: bytes32(uint256(1)),
            home: HOME
        });
    }

    /// @dev Returns the address that got the money; zero if the route has none.
    function _pay(PayForwarder.Route memory r, uint256 amount) private returns (address place) {
        try forwarder.addressOf(r) returns (address created) {
            place = created;
            token.mint(place, amount);
        } catch {
            assert(r.fee > r.value);
        }
    }

    function _sweep(PayForwarder.Route memory r) private returns (bool) {
        address[] memory assets = new address[](1);
        assets[0] = address(token);
        try forwarder.sweepOne(r, assets) {
            return true;
        } catch {
            return false;
        }
    }

    function _holds(address place, uint256 merchant, uint256 operator, uint256 home, uint256 rest)
        private
        view
    {
        assert(token.balanceOf(MERCHANT) == merchant);
        assert(token.balanceOf(OPERATOR) == operator);
        assert(token.balanceOf(HOME) == home);
        assert(token.balanceOf(place) == rest);
    }
}
