"""The chains of an installation, embedded or named: their keys, tokens and prices."""
