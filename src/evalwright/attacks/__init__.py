"""Attacks: pure functions that make an adversarial suite of another one."""
