"""Write the references of docs/reference from the code they describe."""
