"""What a receipt says, and how it is signed and checked."""
