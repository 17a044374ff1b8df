"""What keeps an audit from doing harm."""
