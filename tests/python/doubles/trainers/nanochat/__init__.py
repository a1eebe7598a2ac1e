"""The interface of nanochat between its loader and its training; nanochat is not a package that can be installed.

As in the repository at commit 92d63d4.
"""

__version__ = "0.1.0"
