// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PaySettler} from "../../src/PaySettler.sol";

/// @notice The behavior of hostile code when it is called.
enum Malice {
    None,
    BurnsGas,
    RevertsWithAll,
    ReturnsAll,
    Reenters,
    RefusesEverything
}

/// @notice Code of a hostile account or receiver; its storage selects the harm.
/// @dev Tests put it at an address; slot 0 is the malice, slot 1 the settlement contract.
contract HostileCode {
    Malice public malice;
    PaySettler public settler;

    function turn(Malice malice_, PaySettler settler_) external {
        malice = malice_;
        settler = settler_;
    }

    /// @notice Accept any signature, after the selected harm.
    function isValidSignature(bytes32, bytes calldata) external returns (bytes4) {
        _harm();
        return 0x1626ba7e;
    }

    receive() external payable {
        _harm();
    }

    fallback() external payable {
        _harm();
    }

    function _harm() private {
        if (malice == Malice.None) return;
        if (malice == Malice.BurnsGas) {
            assembly {
                invalid()
            }
        }
        if (malice == Malice.RevertsWithAll) {
            assembly {
                // as much as the remaining gas buys
                revert(0, mul(100000, gt(gas(), 60000)))
            }
        }
        if (malice == Malice.ReturnsAll) {
            assembly {
                return(0, mul(100000, gt(gas(), 60000)))
            }
        }
        if (malice == Malice.Reenters) {
            PaySettler.Pay[] memory none = new PaySettler.Pay[](0);
            settler.settle3009(none);
            PaySettler.Pay memory again;
            again.from = address(this);
            again.dest = address(this);
            again.validBefore = type(uint256).max;
            settler.pay(again);
        }
        revert("refused");
    }
}

/// @notice A token whose transfers lie in the selected way.
contract HostileToken {
    enum Lie {
        None,
        TakesFee,
        SaysNo,
        SaysNothing,
        SaysTwo,
        MovesNothing,
        BurnsGas,
        RevertsWithAll,
        Reenters
    }

    Lie public lie;
    mapping(address account => uint256) public balanceOf;
    PaySettler private settler;

    function turn(Lie lie_, PaySettler settler_) external {
        lie = lie_;
        settler = settler_;
    }

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        bytes calldata
    ) external {
        _move(from, to, value);
    }

    function transfer(address to, uint256 value) external {
        _move(msg.sender, to, value);
        _answer();
    }

    function transferFrom(address from, address to, uint256 value) external {
        _move(from, to, value);
        _answer();
    }

    function _move(address from, address to, uint256 value) private {
        if (lie == Lie.BurnsGas) {
            assembly {
                invalid()
            }
        }
        if (lie == Lie.RevertsWithAll) {
            assembly {
                revert(0, mul(100000, gt(gas(), 60000)))
            }
        }
        if (lie == Lie.Reenters) {
            PaySettler.Pay memory again;
            again.from = address(this);
            again.dest = address(1);
            again.validBefore = type(uint256).max;
            settler.pay(again);
        }
        if (lie == Lie.MovesNothing) return;
        balanceOf[from] -= value;
        balanceOf[to] += lie == Lie.TakesFee ? value - value / 10 : value;
    }

    function _answer() private view {
        uint256 word = lie == Lie.SaysNo ? 0 : lie == Lie.SaysTwo ? 2 : 1;
        uint256 size = lie == Lie.SaysNothing ? 0 : 32;
        assembly {
            mstore(0, word)
            return(0, size)
        }
    }
}
