"""The wallet of `florin pay`, which pays a link and shows every step."""
