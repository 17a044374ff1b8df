"""Holdfast as the memory of agent frameworks: one file each, imported only when it is used."""
