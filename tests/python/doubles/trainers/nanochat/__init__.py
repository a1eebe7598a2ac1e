"""The interface of nanochat between its loader and its training, because nanochat is not an installable package.

As in the repository at commit 92d63d4.
"""

__version__ = "0.1.0"
