"""Which networks there are, and which of them an operator has added."""
