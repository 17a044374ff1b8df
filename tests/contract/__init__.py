"""Walk-throughs: what is built later, written directly against the contract."""
