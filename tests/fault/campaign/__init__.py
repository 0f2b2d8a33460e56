"""The fault campaign: rounds of faults against real servers and daemons, all drawn from a seed."""
