"""Batches: fetched sample by sample and collated."""
