"""Test that the capacity plan follows from the figures of a run."""

from __future__ import annotations

from tests.bench import plan
from tests.bench.report import Figure, Measured, Report


def test_costs_come_from_the_figures_of_a_run():
    figures = (
        Figure("payment_us", 5_000, "µs", ""),
        Figure("gas_eip3009", 58_000, "gas", ""),
        Figure("verify_anvil_per_s", 400, "/s", ""),
        Figure("verify_anvil_vs_chain", 0.8, "×", ""),
    )
    costs, sources = plan.costs_of(Report({}, {"all": Measured(1, figures)}))
    assert (costs.service_us, costs.gas, costs.trials_per_s) == (5_000, 58_000, 500)
    assert costs.database_us == plan.DEFAULTS.database_us
    assert sources["database_us"] == "default"
    assert sources["service_us"] == "`payment_us`"
