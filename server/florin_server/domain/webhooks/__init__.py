"""What merchants' back ends are told of changes, and how it is signed; pure."""
