"""The web application in which a person reads, corrects and signs; needs the extra `reader`."""
