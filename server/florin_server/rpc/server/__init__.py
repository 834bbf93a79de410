"""What every call passes before its servicer, and what servicers share."""
