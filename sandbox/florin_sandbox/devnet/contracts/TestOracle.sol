// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A price feed in the usual form whose rounds anybody writes: for tests.
contract TestOracle {
    uint8 public immutable decimals;

    uint80 private _round;
    int256 private _answer;
    uint256 private _updatedAt;
    uint80 private _answeredInRound;

    constructor(uint8 places) {
        decimals = places;
    }

    function set(uint80 round, int256 answer, uint256 updatedAt, uint80 answeredInRound) external {
        _round = round;
        _answer = answer;
        _updatedAt = updatedAt;
        _answeredInRound = answeredInRound;
    }

    function latestRoundData()
        external
        view
        returns (uint80 round, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredIn)
    {
        require(_round != 0, "No data present");
        return (_round, _answer, _updatedAt, _updatedAt, _answeredInRound);
    }
}
