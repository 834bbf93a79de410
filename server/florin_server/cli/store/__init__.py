"""Commands for the store: schema upgrades, backups and copies."""
