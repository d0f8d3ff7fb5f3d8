"""Compiled code of `be_star`: arrays in, arrays out."""
