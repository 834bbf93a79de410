"""The sources of exports: the store of an installation, or a server."""
