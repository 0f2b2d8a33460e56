"""Guests with real verbs: a stock kernel in QEMU, the host's files, soft-RoCE."""
