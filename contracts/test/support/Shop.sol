// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PaySettler} from "../../src/PaySettler.sol";
import {TestDollar} from "../../sandbox/TestDollar.sol";
import {Cheats, cheats} from "./Cheats.sol";
import {HostileCode, HostileToken, Malice} from "./Hostile.sol";
import {Routes} from "./Routes.sol";

/// @notice Any actions of buyers, merchants and strangers on one settlement contract, and a
/// small model of the results that they must have.
/// @dev A step with another result reverts, which forge counts as a failure.
contract Shop is Routes {
    struct Offer {
        PaySettler.Kind kind;
        PaySettler.Pay pay;
        uint256 key;
    }

    struct Batch {
        PaySettler.Pay[] by3009;
        PaySettler.Pay[] byPermit2;
        uint256 mask;
        uint256 paid;
    }

    uint256 private constant OFFERS = 24;
    uint256 private constant KEYS = 6;
    uint256 private constant BATCH = 6;
    uint256 private constant ITEM_GAS = 250_000;

    address[] internal accounts;
    address[] internal tokens;
    HostileToken internal bad;
    /// @notice The balances that accounts must have, by token; zero is the coin.
    mapping(address token => mapping(address account => uint256)) internal expected;
    mapping(address from => mapping(bytes32 nonce => bool)) internal used;
    Offer[] internal offers;
    uint256 internal made;
    /// @notice The number of payments that moved; a campaign in which none did must fail.
    uint256 public settled;

    constructor() {
        _deploy();
        bad = new HostileToken();
        tokens = [address(0), address(dollar), address(euro), address(bad)];
        for (uint256 i = 0; i < KEYS; ++i) {
            address buyer = cheats.addr(_key(i));
            accounts.push(buyer);
            _fill(buyer);
            bad.mint(buyer, RICH);
            for (uint256 t = 0; t < tokens.length; ++t) expected[tokens[t]][buyer] = RICH;
        }
        accounts.push(MERCHANT);
        accounts.push(OPERATOR);
        accounts.push(address(settler));
        accounts.push(address(this));
    }

    // ---- actions

    /// @notice Offer a payment to a buyer, who signs it if its kind needs a signature.
    function offer(uint256 seed, uint96 value, uint96 fee, uint32 lasts) external {
        Offer memory one;
        one.kind = PaySettler.Kind(seed % 3);
        one.key = _key((seed >> 8) % KEYS);
        PaySettler.Pay memory p = one.pay;
        p.from = cheats.addr(one.key);
        p.token = one.kind == PaySettler.Kind.Eip3009
            ? address(dollar)
            : one.kind == PaySettler.Kind.Permit2 ? address(euro) : tokens[(seed >> 16) % 3];
        p.value = value;
        p.fee = fee % (uint256(value) + 2);
        p.validBefore = block.timestamp + lasts % 1 days;
        // sometimes the receiver is another buyer, which can have code
        p.dest = (seed >> 24) % 4 == 0 ? accounts[(seed >> 32) % KEYS] : MERCHANT;
        p.feeTo = OPERATOR;
        p.gas = ITEM_GAS;
        p.ref = keccak256(abi.encode("ref", ++made));
        if (one.kind != PaySettler.Kind.Direct) p.sig = _signed(one.kind, p, one.key);
        if (offers.length < OFFERS) offers.push(one);
        else offers[(seed >> 40) % OFFERS] = one;
    }

    /// @notice Settle some of the signed payments, unchanged or tampered with, as any caller.
    function settle(uint256 seed) external {
        Batch memory batch = _batch(seed);
        cheats.recordLogs();
        uint256 mask = settler.settle(batch.by3009, batch.byPermit2);
        require(mask == batch.mask, "a payment was stopped, or moved without a right to");
        _count(batch.paid);
    }

    /// @notice Settle with little gas: the result is as with enough gas, or nothing happens.
    function starve(uint256 seed, uint24 gas) external {
        if (offers.length == 0) return;
        bytes memory call = _peek(seed);
        uint256 given = 60_000 + uint256(gas);
        (bool ok, bytes memory answer) = address(settler).call{gas: given}(call);
        if (!ok) return;
        Batch memory batch = _batch(seed);
        require(abi.decode(answer, (uint256)) == batch.mask, "less gas made a difference");
    }

    /// @notice Pay directly as a buyer, sometimes with another deadline than the offer's.
    function pay(uint256 seed) external {
        if (offers.length == 0) return;
        Offer memory one = offers[seed % offers.length];
        PaySettler.Pay memory p = one.pay;
        if ((seed >> 16) % 4 == 0) p.validBefore = type(uint256).max;
        bytes32 nonce = settler.routeNonce(PaySettler.Kind.Direct, p);
        uint256 coin = p.token == address(0) ? p.value : 0;
        bool good = _isPayable(p, nonce) && block.timestamp < p.validBefore && _takes(p);
        cheats.recordLogs();
        cheats.prank(p.from);
        try settler.pay{value: coin}(p) {
            require(good, "paid against the rules");
            _move(p);
            used[p.from][nonce] = true;
            _count(1);
        } catch {
            require(!good, "a good payment was refused");
        }
    }

    /// @notice Send a buyer's direct payment as another sender.
    function impersonate(uint256 seed) external {
        if (offers.length == 0) return;
        PaySettler.Pay memory p = offers[seed % offers.length].pay;
        try settler.pay(p) {
            revert("paid in another's name");
        } catch {}
    }

    /// @notice Settle in a token that lies; payments can fail, but the contract stays unharmed.
    function lie(uint256 seed, uint96 value, uint8 kind) external {
        bad.turn(HostileToken.Lie(kind % 9), settler);
        PaySettler.Pay[] memory payments = new PaySettler.Pay[](2);
        payments[0].token = address(bad);
        payments[0].from = accounts[seed % KEYS];
        payments[0].value = value;
        payments[0].dest = MERCHANT;
        payments[0].gas = ITEM_GAS;
        payments[1] = payments[0];
        settler.settle3009(payments);
        for (uint256 i = 0; i < accounts.length; ++i) {
            expected[address(bad)][accounts[i]] = bad.balanceOf(accounts[i]);
        }
        require(bad.balanceOf(address(settler)) == 0, "a token was left behind");
        bad.turn(HostileToken.Lie.None, settler);
    }

    /// @notice Give a buyer hostile code (as by EIP-7702), change its harm, or remove it.
    function gainCode(uint256 seed, uint8 malice) external {
        address who = accounts[seed % KEYS];
        if (malice % 8 == 7) {
            cheats.etch(who, "");
            return;
        }
        cheats.etch(who, type(HostileCode).runtimeCode);
        HostileCode(payable(who)).turn(Malice(malice % 6), settler);
    }

    /// @notice Advance the time.
    function wait(uint16 seconds_) external {
        cheats.warp(block.timestamp + seconds_);
    }

    // ---- the model

    function _batch(uint256 seed) private returns (Batch memory batch) {
        (batch.by3009, batch.byPermit2) = _chosen(seed);
        uint256 bit;
        for (uint256 i = 0; i < batch.by3009.length; ++i) {
            if (_settles(PaySettler.Kind.Eip3009, batch.by3009[i])) {
                batch.mask |= 1 << bit;
                ++batch.paid;
            }
            ++bit;
        }
        for (uint256 i = 0; i < batch.byPermit2.length; ++i) {
            if (_settles(PaySettler.Kind.Permit2, batch.byPermit2[i])) {
                batch.mask |= 1 << bit;
                ++batch.paid;
            }
            ++bit;
        }
    }

    function _peek(uint256 seed) private view returns (bytes memory) {
        (PaySettler.Pay[] memory a, PaySettler.Pay[] memory b) = _chosen(seed);
        return abi.encodeCall(PaySettler.settle, (a, b));
    }

    /// @dev Chooses some offers, and tampers with some of these.
    function _chosen(uint256 seed)
        private
        view
        returns (PaySettler.Pay[] memory first, PaySettler.Pay[] memory second)
    {
        uint256 count = offers.length == 0 ? 0 : 1 + seed % BATCH;
        PaySettler.Pay[] memory a = new PaySettler.Pay[](count);
        PaySettler.Pay[] memory b = new PaySettler.Pay[](count);
        uint256 inA;
        uint256 inB;
        for (uint256 i = 0; i < count; ++i) {
            uint256 chance = uint256(keccak256(abi.encode(seed, i)));
            Offer memory one = offers[chance % offers.length];
            _tamper(one.pay, (chance >> 64) % 16);
            if (one.kind == PaySettler.Kind.Permit2) b[inB++] = one.pay;
            else a[inA++] = one.pay;
        }
        assembly {
            mstore(a, inA)
            mstore(b, inB)
        }
        return (a, b);
    }

    function _tamper(PaySettler.Pay memory p, uint256 how) private view {
        if (how == 0) p.value += 1;
        if (how == 1) p.dest = address(this);
        if (how == 2) p.validBefore += 1 days;
        if (how == 3) p.fee = p.fee == 0 ? 1 : 0;
        if (how == 4) p.feeTo = address(this);
        if (how == 5) p.ref = keccak256(abi.encode(p.ref));
        if (how == 6 && p.sig.length == 65) p.sig[40] ^= 0x01;
    }

    /// @dev Returns whether a payment moves now, and moves it in the model if so.
    function _settles(PaySettler.Kind kind, PaySettler.Pay memory p) private returns (bool) {
        bytes32 nonce = settler.routeNonce(kind, p);
        bool is3009 = kind == PaySettler.Kind.Eip3009;
        if (p.token != (is3009 ? address(dollar) : address(euro))) return false;
        bool inTime =
            is3009 ? block.timestamp < p.validBefore : block.timestamp <= p.validBefore;
        if (!_isPayable(p, nonce) || !inTime || !_accepts(kind, p, nonce)) return false;
        _move(p);
        used[p.from][nonce] = true;
        ++settled;
        return true;
    }

    function _isPayable(PaySettler.Pay memory p, bytes32 nonce) private view returns (bool) {
        return p.fee <= p.value && !used[p.from][nonce] && expected[p.token][p.from] >= p.value;
    }

    /// @dev Returns whether a token accepts this as signed by the payer.
    function _accepts(PaySettler.Kind kind, PaySettler.Pay memory p, bytes32)
        private
        view
        returns (bool)
    {
        if (p.from.code.length > 0) return HostileCode(payable(p.from)).malice() == Malice.None;
        for (uint256 i = 0; i < KEYS; ++i) {
            if (cheats.addr(_key(i)) == p.from) {
                return keccak256(p.sig) == keccak256(_signed(kind, p, _key(i)));
            }
        }
        return false;
    }

    /// @dev Returns whether the receiver accepts coin; tokens do not ask receivers.
    function _takes(PaySettler.Pay memory p) private view returns (bool) {
        if (p.token != address(0) || p.dest.code.length == 0) return true;
        Malice malice = HostileCode(payable(p.dest)).malice();
        return malice == Malice.None || malice == Malice.ReturnsAll;
    }

    function _move(PaySettler.Pay memory p) private {
        expected[p.token][p.from] -= p.value;
        expected[p.token][p.dest] += p.value - p.fee;
        expected[p.token][p.feeTo] += p.fee;
    }

    function _count(uint256 paid) private {
        Cheats.Log[] memory logs = cheats.getRecordedLogs();
        uint256 count;
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter == address(settler) && logs[i].topics[0] == PaySettler.Paid.selector) ++count;
        }
        require(count == paid, "events and payments differ");
        settled += paid;
    }

    function _key(uint256 index) private pure returns (uint256) {
        return 0xB0B0 + index;
    }

    /// @notice Returns the token and the account of a balance that differs from the model; both
    /// are this contract if no balance differs.
    function wrong() external view returns (address, address) {
        for (uint256 t = 0; t < tokens.length; ++t) {
            address token = tokens[t];
            for (uint256 i = 0; i < accounts.length; ++i) {
                address who = accounts[i];
                uint256 held = token == address(0) ? who.balance : TestDollar(token).balanceOf(who);
                if (held != expected[token][who]) return (token, who);
            }
        }
        return (address(this), address(this));
    }
}
