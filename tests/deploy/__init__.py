"""What is in `deploy`: checked by the programs that it is for, and run where they can be had."""
