"""One module a framework: what its documentation says to use, in the shape of `..shape`."""
