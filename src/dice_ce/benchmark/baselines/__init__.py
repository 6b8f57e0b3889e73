"""Rules that choose a fixed number of frames, each labelled on its own by a diagnoser; METHODS lists them."""
