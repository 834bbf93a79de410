"""Rules about the people who pay: screening, and the data that they give."""
