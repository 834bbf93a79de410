"""The jobs that exchange notifications with other processes on one store."""
