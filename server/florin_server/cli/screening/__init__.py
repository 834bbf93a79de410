"""Commands for screening lists."""
