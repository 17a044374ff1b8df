"""What people, programs and models ask for by hand: each action is a row, for every interface."""
