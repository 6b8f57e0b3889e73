"""Exam -> the same exam without anything that says whose it is: pixels, container, file names, DICOM attributes."""
