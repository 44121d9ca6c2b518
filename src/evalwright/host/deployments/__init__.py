"""Deployments: which version of an agent serves, who let it, and by what evidence."""
