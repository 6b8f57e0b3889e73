"""DICOM exams: video objects, multi-frame images, series of single images, and DICOMDIR.

Who the patient is stays in the files: only the attributes listed in `objects.NEEDED` are read for an exam.
`identity.py` reads the others, when asked for; `naming.py` compares them with the name of the file.
"""
