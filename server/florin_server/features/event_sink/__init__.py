"""Event sink: the events of all payments, published to a broker in the order of each payment."""
