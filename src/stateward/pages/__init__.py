"""HTML pages and charts that need no network, and the wording of figures in them."""
