"""Icons: small pictures of assets and merchants, fetched from addresses that others name."""
