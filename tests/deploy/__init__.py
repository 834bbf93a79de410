"""The files of `deploy`: checked by the programs that they are for, and run where those exist."""
