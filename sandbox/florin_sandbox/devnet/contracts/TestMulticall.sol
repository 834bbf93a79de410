// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The two functions of Multicall3 that reading uses, for chains without it: for tests.
contract TestMulticall {
    struct Call {
        address target;
        bool allowFailure;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    function aggregate3(Call[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (bool success, bytes memory told) = calls[i].target.call(calls[i].callData);
            require(success || calls[i].allowFailure, "a call failed");
            results[i] = Result(success, told);
        }
    }

    function getEthBalance(address account) external view returns (uint256) {
        return account.balance;
    }
}
