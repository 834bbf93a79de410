"""Development tools of Florin; they are not part of an installation."""
