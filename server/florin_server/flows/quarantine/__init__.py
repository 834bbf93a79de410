"""Items that workers set aside, and what the operator does with them."""
