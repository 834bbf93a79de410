"""Operations: leases, executors, quarantine and conditions, which every worker uses."""
