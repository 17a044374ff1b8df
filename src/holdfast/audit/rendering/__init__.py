"""The forms of a report: each one a pure function from `Report` to text, and none knows another."""
