// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PayForwarder, Vault} from "../../src/PayForwarder.sol";
import {Addresses} from "./Addresses.sol";
import {cheats} from "./Cheats.sol";
import {MisbehavingToken} from "./Misbehaving.sol";

/// @notice Any actions of buyers and strangers on the addresses of one forwarder, and a small model
/// of the results that they must have.
/// @dev Each route has receivers of its own, so that balances show where its money went. A step with
/// another result reverts, which forge counts as a failure.
contract PostOffice is Addresses {
    struct Model {
        bool isPaid;
        bool isClosed;
        bool hasCode;
        uint256[4] given;
        uint256[4] here;
    }

    uint256 private constant ROUTES = 8;
    uint256 private constant ASSETS = 4;
    // routes of another chain
    uint256 private constant FOREIGN = 7;

    MisbehavingToken private odd;
    address[4] private assets;
    PayForwarder.Route[8] private routes;
    address[8] private places;
    Model[8] private models;
    /// @notice The numbers of payments and of sweeps; a campaign without any must fail.
    uint256 public paid;
    uint256 public swept;
    /// @dev Bit i is set if the last action is one on route i.
    uint256 private changed;

    constructor() {
        _deploy();
        odd = new MisbehavingToken();
        assets = [COIN, address(dollar), address(euro), address(odd)];
        for (uint256 i = 0; i < ROUTES; ++i) {
            routes[i] = PayForwarder.Route({
                chainId: i < FOREIGN ? block.chainid : block.chainid + 1,
                token: assets[i % ASSETS],
                value: VALUE + i,
                validBefore: START + 300 * (i + 1),
                dest: address(uint160(0xd00000 + i)),
                feeTo: address(uint160(0xfee000 + i)),
                fee: i % 3 == 0 ? 0 : FEE + i,
                ref: bytes32(i),
                home: address(uint160(0x40e000 + i))
            });
            places[i] = forwarder.addressOf(routes[i]);
        }
    }

    // ---- actions

    /// @notice Send an asset to an address: the exact value of its payment, or any amount of any.
    function give(uint256 which, uint256 asset, uint256 amount, bool isExact) external {
        which = _touch(which);
        asset = isExact ? which % ASSETS : asset % ASSETS;
        amount = isExact ? routes[which].value : amount % (2 * VALUE);
        address place = places[which];
        if (asset == 0) {
            cheats.deal(address(this), amount);
            (bool ok,) = place.call{value: amount, gas: 2300}("");
            require(ok == !models[which].hasCode, "coin was refused, or accepted by code");
            if (!ok) return;
        } else {
            MisbehavingToken(assets[asset]).mint(place, amount);
        }
        _give(which, asset, amount);
    }

    /// @notice Put coin on an address as a block's reward does, whether it has code or not.
    function force(uint256 which, uint256 amount) external {
        which = _touch(which);
        amount %= VALUE;
        address place = places[which];
        cheats.deal(place, place.balance + amount);
        _give(which, 0, amount);
    }

    /// @notice Forward payments of a batch, one of them twice, with errands of a stranger.
    function forward(uint256 which, uint256 second, address sender) external {
        uint256[3] memory chosen = [_touch(which), second % ROUTES, which % ROUTES];
        changed |= 1 << chosen[1];
        PayForwarder.Forwarding[] memory items = new PayForwarder.Forwarding[](3);
        uint256 mask;
        for (uint256 i = 0; i < 3; ++i) {
            PayForwarder.Route memory r = routes[chosen[i]];
            address target = i == 0 ? places[chosen[1]] : address(forwarder);
            bytes memory call = i == 0
                ? abi.encodeCall(Vault.send, (r.token, sender, 1))
                : abi.encodeCall(PayForwarder.sweepOne, (r, _only(r.token)));
            items[i] = PayForwarder.Forwarding(r, target, call, ITEM_GAS);
            if (_pays(chosen[i])) mask |= 1 << i;
        }
        cheats.prank(sender);
        require(forwarder.forward(items) == mask, "a payment was stopped, or moved without a right");
    }

    /// @notice Forward with little gas: the result is as with enough gas, or nothing happens.
    function starve(uint256 which, uint24 gas) external {
        which = _touch(which);
        PayForwarder.Forwarding[] memory items = new PayForwarder.Forwarding[](1);
        items[0] = _item(routes[which]);
        bytes memory call = abi.encodeCall(PayForwarder.forward, (items));
        (bool ok, bytes memory answer) =
            address(forwarder).call{gas: 60_000 + uint256(gas) % 500_000}(call);
        if (!ok) return;
        uint256 mask = abi.decode(answer, (uint256));
        require((mask == 1) == _pays(which), "less gas made a difference");
    }

    /// @notice Send home one or two assets of an address.
    function sweep(uint256 which, uint256 asset, uint256 more, address sender) external {
        which = _touch(which);
        address[] memory chosen = new address[](2);
        (asset, more) = (asset % ASSETS, more % ASSETS);
        (chosen[0], chosen[1]) = (assets[asset], assets[more]);
        PayForwarder.Sweep[] memory items = new PayForwarder.Sweep[](1);
        items[0] = PayForwarder.Sweep(routes[which], chosen, ITEM_GAS);
        bool moves = _sweeps(which, asset, more);
        cheats.prank(sender);
        require((forwarder.sweep(items) == 1) == moves, "a sweep was stopped, or moved too much");
    }

    /// @notice Claim another route for an address: no money of it moves.
    function lie(uint256 which, uint256 field, uint160 other, bool isSweep) external {
        PayForwarder.Route memory r = routes[_touch(which)];
        bytes32 nonce = forwarder.routeNonce(r);
        field %= 8;
        if (field == 0) r.dest = address(other);
        if (field == 1) r.home = address(other);
        if (field == 2) r.feeTo = address(other);
        if (field == 3) r.fee = r.value;
        if (field == 4) r.validBefore += 1_000_000;
        if (field == 5) r.value = 1;
        if (field == 6) r.chainId += 1;
        if (field == 7) r.token = assets[other % ASSETS];
        if (forwarder.routeNonce(r) == nonce) return;
        address[] memory all = new address[](ASSETS);
        for (uint256 i = 0; i < ASSETS; ++i) all[i] = assets[i];
        (bool ok,) = address(forwarder).call(
            isSweep
                ? abi.encodeCall(PayForwarder.sweepOne, (r, all))
                : abi.encodeCall(PayForwarder.forwardOne, (_item(r)))
        );
        require(!ok, "another route moved money");
    }

    /// @notice Ask a vault as a stranger.
    function grab(uint256 which, uint256 asset, address sender) external {
        address place = places[_touch(which)];
        if (sender == address(forwarder)) return;
        cheats.prank(sender);
        (bool ok,) =
            place.call(abi.encodeCall(Vault.send, (assets[asset % ASSETS], sender, 1)));
        // an address without code takes any call
        require(ok == (place.code.length == 0), "a vault obeyed a stranger");
    }

    /// @notice Let a token refuse to move, in one of several ways, or move again.
    function turn(uint256 way) external {
        MisbehavingToken.Way[5] memory ways = [
            MisbehavingToken.Way.None,
            MisbehavingToken.Way.None,
            MisbehavingToken.Way.SaysNo,
            MisbehavingToken.Way.BurnsGas,
            MisbehavingToken.Way.RevertsWithAll
        ];
        odd.turn(ways[way % 5]);
    }

    /// @notice Advance the time.
    function wait(uint256 seconds_) external {
        cheats.warp(block.timestamp + seconds_ % 200);
    }

    // ---- the model

    function _touch(uint256 which) private returns (uint256) {
        changed = 1 << (which % ROUTES);
        return which % ROUTES;
    }

    function _give(uint256 which, uint256 asset, uint256 amount) private {
        models[which].given[asset] += amount;
        models[which].here[asset] += amount;
    }

    function _isStuck(uint256 asset) private view returns (bool) {
        return asset == 3 && odd.way() != MisbehavingToken.Way.None;
    }

    /// @dev Returns whether a payment moves now, and moves it in the model if so.
    function _pays(uint256 which) private returns (bool) {
        PayForwarder.Route memory r = routes[which];
        Model storage m = models[which];
        uint256 asset = which % ASSETS;
        if (which >= FOREIGN || block.timestamp >= r.validBefore || m.isClosed) return false;
        if (m.here[asset] < r.value || _isStuck(asset)) return false;
        (m.isPaid, m.isClosed, m.hasCode) = (true, true, true);
        m.here[asset] -= r.value;
        ++paid;
        return true;
    }

    /// @dev Returns whether assets go home now, and moves them in the model if so.
    function _sweeps(uint256 which, uint256 asset, uint256 more) private returns (bool) {
        Model storage m = models[which];
        bool isOver = which >= FOREIGN || block.timestamp >= routes[which].validBefore;
        bool isClosed = isOver || m.isClosed;
        uint256 token = which % ASSETS;
        if (!isClosed && token == 0) return false;
        bool hasToken = (asset == token || more == token) && m.here[token] > 0;
        if (!isClosed && hasToken) return false;
        if (m.here[asset] == 0 && m.here[more] == 0) return false;
        if (_isStuck(asset) && m.here[asset] > 0) return false;
        if (_isStuck(more) && m.here[more] > 0) return false;
        m.here[asset] = 0;
        m.here[more] = 0;
        m.hasCode = true;
        if (isClosed) m.isClosed = true;
        ++swept;
        return true;
    }

    /// @notice Returns what differs from the model at the addresses that the last action changed;
    /// empty if nothing does.
    function wrong() external view returns (string memory) {
        for (uint256 i = 0; i < ROUTES; ++i) {
            if (changed & (1 << i) == 0) continue;
            string memory problem = _wrong(i);
            if (bytes(problem).length > 0) return problem;
        }
        return "";
    }

    /// @notice The same at all addresses, and in the contracts.
    function wrongAnywhere() external view returns (string memory) {
        for (uint256 i = 0; i < ROUTES; ++i) {
            string memory problem = _wrong(i);
            if (bytes(problem).length > 0) return problem;
        }
        address[3] memory ours = [address(forwarder), forwarder.vault(), forwarder.errand()];
        for (uint256 i = 0; i < 3; ++i) {
            for (uint256 a = 0; a < ASSETS; ++a) {
                if (_held(assets[a], ours[i]) != 0) return "a contract holds money";
            }
        }
        return "";
    }

    function _wrong(uint256 which) private view returns (string memory) {
        PayForwarder.Route storage r = routes[which];
        Model storage m = models[which];
        if ((places[which].code.length > 0) != m.hasCode) return "code";
        for (uint256 a = 0; a < ASSETS; ++a) {
            bool isPaid = m.isPaid && a == which % ASSETS;
            uint256 share = isPaid ? r.value - r.fee : 0;
            uint256 fee = isPaid ? r.fee : 0;
            if (_held(assets[a], r.dest) != share) return "merchant";
            if (_held(assets[a], r.feeTo) != fee) return "fee";
            if (_held(assets[a], places[which]) != m.here[a]) return "address";
            uint256 home = _held(assets[a], r.home);
            if (home + share + fee + m.here[a] != m.given[a]) return "home";
        }
        return "";
    }
}
