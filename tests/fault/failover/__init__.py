"""Failovers by real sentinels, one after the other, drawn from a seed."""
