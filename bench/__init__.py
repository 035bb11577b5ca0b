"""Measurements of Wakeful as it ships: figures with how they were got, and nothing that asserts them."""
