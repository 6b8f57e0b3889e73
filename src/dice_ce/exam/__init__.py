"""Any export of a capsule exam -> Exam: frames by ordinal, exact times, the exam clock, the field of view."""
