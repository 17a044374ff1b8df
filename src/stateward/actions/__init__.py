"""Actions that people, programs and models ask for by hand: a row each, for every interface."""
