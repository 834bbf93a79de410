// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The cheat codes of forge that these tests use.
interface Cheats {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function addr(uint256 key) external pure returns (address);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function etch(address target, bytes calldata code) external;
    function warp(uint256 time) external;
    function deal(address account, uint256 balance) external;
    function prank(address sender) external;
    function chainId(uint256 id) external;
    function recordLogs() external;
    function getRecordedLogs() external returns (Log[] memory);
}

Cheats constant cheats = Cheats(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);
