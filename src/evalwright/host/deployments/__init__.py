"""Deployments: which version of an agent serves, who allowed it, and on what evidence."""
