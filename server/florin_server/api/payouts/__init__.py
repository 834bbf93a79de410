"""The operator's calls about payouts and held money."""
