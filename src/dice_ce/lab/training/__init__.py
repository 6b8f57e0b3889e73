"""Training: fine-tuned networks, heads, calibration, tuning. Needs the extra `train`."""
