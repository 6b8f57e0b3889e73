"""Networks behind the encoders, each imported only when it is asked for."""
