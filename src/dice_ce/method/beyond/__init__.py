"""What we add to the paper, each rule in one file that says what it brings."""
