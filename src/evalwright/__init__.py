"""Evalwright: is this agent, or this prompt, good enough to ship?"""

__all__ = ["__version__"]

__version__ = "0.2.0"
