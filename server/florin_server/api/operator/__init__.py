"""The operator's service, and its calls about the installation."""
