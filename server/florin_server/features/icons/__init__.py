"""Icons of assets and merchants."""
