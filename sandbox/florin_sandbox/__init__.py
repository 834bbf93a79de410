"""The sandbox of Florin: embedded chains, faults, test accounts and simulated days."""
