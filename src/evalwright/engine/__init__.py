"""Executes runs: plan, invoke, record, score, resume, replay."""
