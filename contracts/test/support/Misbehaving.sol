// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PayForwarder} from "../../src/PayForwarder.sol";

/// @notice A token whose transfers and balances misbehave in the selected way.
contract MisbehavingToken {
    enum Way {
        None,
        TakesFee,
        SaysNo,
        SaysTwo,
        SaysOneByte,
        MovesNothing,
        BurnsGas,
        RevertsWithAll,
        Reenters,
        ClaimsEverything,
        ReturnsNoBalance
    }

    Way public way;
    mapping(address account => uint256) private held;
    address private target;
    bytes private call;
    /// @notice True once a call from within a transfer succeeded.
    bool public hasReentered;

    function turn(Way way_) external {
        way = way_;
    }

    /// @notice Call a contract during each transfer.
    function turnToCall(address target_, bytes calldata call_) external {
        way = Way.Reenters;
        target = target_;
        call = call_;
    }

    function mint(address to, uint256 value) external {
        held[to] += value;
    }

    function balanceOf(address account) external view returns (uint256) {
        if (way == Way.ClaimsEverything) return type(uint256).max;
        if (way == Way.ReturnsNoBalance) {
            assembly {
                return(0, 31)
            }
        }
        return held[account];
    }

    function transfer(address to, uint256 value) external {
        if (way == Way.BurnsGas) {
            assembly {
                invalid()
            }
        }
        if (way == Way.RevertsWithAll) {
            assembly {
                revert(0, mul(100000, gt(gas(), 60000)))
            }
        }
        if (way == Way.Reenters) {
            (bool ok,) = target.call(call);
            if (ok) hasReentered = true;
        }
        if (way != Way.MovesNothing) {
            held[msg.sender] -= value;
            held[to] += way == Way.TakesFee ? value - value / 100 : value;
        }
        uint256 word = way == Way.SaysNo ? 0 : way == Way.SaysTwo ? 2 : 1;
        uint256 size = way == Way.SaysOneByte ? 1 : 32;
        assembly {
            mstore(0, word)
            return(0, size)
        }
    }
}

/// @notice A second address of a token's money.
contract SecondEntry {
    MisbehavingTwin private immutable twin;

    constructor(MisbehavingTwin twin_) {
        twin = twin_;
    }

    function balanceOf(address account) external view returns (uint256) {
        return twin.balanceOf(account);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return twin.moveFor(msg.sender, to, value);
    }
}

/// @notice A token whose money can also be moved through its second entry.
contract MisbehavingTwin {
    mapping(address account => uint256) public balanceOf;
    SecondEntry public immutable second = new SecondEntry(this);

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return _move(msg.sender, to, value);
    }

    function moveFor(address from, address to, uint256 value) external returns (bool) {
        require(msg.sender == address(second));
        return _move(from, to, value);
    }

    function _move(address from, address to, uint256 value) private returns (bool) {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        return true;
    }
}

/// @notice A receiver of coin that refuses it, or calls a contract.
contract CoinReceiver {
    bool public refuses;
    address private target;
    bytes private call;
    /// @notice True once a call from within a receipt succeeded.
    bool public hasReentered;

    function refuse() external {
        refuses = true;
    }

    function turnToCall(address target_, bytes calldata call_) external {
        target = target_;
        call = call_;
    }

    receive() external payable {
        require(!refuses, "refused");
        if (call.length == 0) return;
        (bool ok,) = target.call(call);
        if (ok) hasReentered = true;
    }
}

/// @notice An account with code that pays out coin with the least gas, as exchanges do.
contract Exchange {
    function withdraw(address payable to, uint256 amount) external {
        to.transfer(amount);
    }

    receive() external payable {}
}
